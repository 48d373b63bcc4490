// Python objects that the core shares: a last reference that is dropped without the GIL is put
// aside for the next thread that holds it.
#include "convert/release.h"

#include "convert/gil.h"

#include <atomic>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <traingraph/mutex.h>

namespace py = pybind11;

namespace traingraph::python {
namespace {

struct Released {
  Mutex mutex;
  std::vector<Kept> objects;
  std::atomic<bool> any{false};
  bool pending = false;  // Python was asked to drop them
};

// Never destroyed: threads of the core may outlive static destructors.
Released& released() {
  static auto* const instance = new Released;
  return *instance;
}

void drop(const Kept& kept) { Py_DECREF(kept.object); }

// Where there is no memory for a list of them: Python has a few places for calls. Beyond those the
// object stays for ever, which is better than the end of the process.
int drop_one(void* object) {
  Py_DECREF(static_cast<PyObject*>(object));
  return 0;
}

int drop_pending(void*) {
  {
    Released& aside = released();
    const LockUnlessLost lock(aside.mutex);
    if (lock) aside.pending = false;
  }
  drop_released();
  return 0;
}

}  // namespace

void Kept::operator()(const void*) const {
  if (!Py_IsInitialized()) {
    return;
  }
  if (PyGILState_Check()) {
    drop(*this);
    return;
  }
  Released& aside = released();
  const LockUnlessLost lock(aside.mutex);
  if (!lock) return;
  try {
    aside.objects.push_back(*this);
  } catch (const std::bad_alloc&) {
    Py_AddPendingCall(drop_one, object);
    return;
  }
  aside.any = true;
  if (!ReleasedGil::here() && !aside.pending) {
    aside.pending = Py_AddPendingCall(drop_pending, nullptr) == 0;
  }
}

void Kept::let_go() {
  PyObject* const dropped = std::exchange(object, py::none().release().ptr());
  Py_DECREF(dropped);
}

std::shared_ptr<const void> share(py::object object) {
  PyObject* const kept = object.release().ptr();
  return {static_cast<const void*>(kept), Kept{kept}};
}

py::object shared_object(const std::shared_ptr<const void>& shared) {
  return py::reinterpret_borrow<py::object>(kept_by(shared)->object);
}

Kept* kept_by(const std::shared_ptr<const void>& shared) { return std::get_deleter<Kept>(shared); }

void drop_released() {
  Released& aside = released();
  if (!aside.any.load(std::memory_order_relaxed)) {
    return;
  }
  std::vector<Kept> objects;
  {
    const LockUnlessLost lock(aside.mutex);
    if (!lock) return;
    objects.swap(aside.objects);
    aside.any = false;
  }
  for (const Kept& object : objects) {
    drop(object);
  }
}

}  // namespace traingraph::python
