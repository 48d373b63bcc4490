#include "release.h"

#include <atomic>
#include <mutex>
#include <vector>

namespace py = pybind11;

namespace traingraph::python {
namespace {

struct Released {
  std::mutex mutex;
  std::vector<Kept*> objects;
  std::atomic<bool> any{false};
};

// Never destroyed: threads of the core may outlive static destructors.
Released& released() {
  static auto* const instance = new Released;
  return *instance;
}

void drop(Kept* kept) {
  for (; kept->references > 0; --kept->references) Py_DECREF(kept->object);
  delete kept;
}

int drop_pending(void*) {
  drop_released();
  return 0;
}

struct Release {
  void operator()(const void* shared) const {
    auto* const kept = static_cast<Kept*>(const_cast<void*>(shared));
    if (!Py_IsInitialized()) {
      return;
    }
    if (PyGILState_Check()) {
      drop(kept);
      return;
    }
    Released& aside = released();
    const std::lock_guard lock(aside.mutex);
    aside.objects.push_back(kept);
    if (!aside.any.exchange(true)) {
      Py_AddPendingCall(drop_pending, nullptr);
    }
  }
};

}  // namespace

void Kept::let_go() {
  PyObject* const dropped = object;
  if (--references == 0) {
    object = py::none().release().ptr();
    references = 1;
  }
  Py_DECREF(dropped);
}

std::shared_ptr<const void> share(py::object object) {
  return {static_cast<const void*>(new Kept{object.release().ptr(), 1}), Release()};
}

py::object shared_object(const std::shared_ptr<const void>& shared) {
  return py::reinterpret_borrow<py::object>(static_cast<const Kept*>(shared.get())->object);
}

Kept* kept_by(const std::shared_ptr<const void>& shared) {
  return std::get_deleter<Release>(shared) != nullptr
             ? static_cast<Kept*>(const_cast<void*>(shared.get()))
             : nullptr;
}

void drop_released() {
  Released& aside = released();
  if (!aside.any.load(std::memory_order_relaxed)) {
    return;
  }
  std::vector<Kept*> objects;
  {
    const std::lock_guard lock(aside.mutex);
    objects.swap(aside.objects);
    aside.any.store(false);
  }
  for (Kept* object : objects) {
    drop(object);
  }
}

}  // namespace traingraph::python
