#include "release.h"

#include <atomic>
#include <mutex>
#include <vector>

namespace py = pybind11;

namespace traingraph::python {
namespace {

struct Released {
  std::mutex mutex;
  std::vector<PyObject*> objects;
  std::atomic<bool> any{false};
};

// Never destroyed: threads of the core may outlive static destructors.
Released& released() {
  static auto* const instance = new Released;
  return *instance;
}

int drop_pending(void*) {
  drop_released();
  return 0;
}

void release(const void* object) {
  auto* const reference = static_cast<PyObject*>(const_cast<void*>(object));
  if (!Py_IsInitialized()) {
    return;
  }
  if (PyGILState_Check()) {
    Py_DECREF(reference);
    return;
  }
  Released& aside = released();
  const std::lock_guard lock(aside.mutex);
  aside.objects.push_back(reference);
  if (!aside.any.exchange(true)) {
    Py_AddPendingCall(drop_pending, nullptr);
  }
}

}  // namespace

std::shared_ptr<const void> share(py::object object) {
  return {static_cast<const void*>(object.release().ptr()), release};
}

void drop_released() {
  Released& aside = released();
  if (!aside.any.load(std::memory_order_relaxed)) {
    return;
  }
  std::vector<PyObject*> objects;
  {
    const std::lock_guard lock(aside.mutex);
    objects.swap(aside.objects);
    aside.any.store(false);
  }
  for (PyObject* object : objects) {
    Py_DECREF(object);
  }
}

}  // namespace traingraph::python
