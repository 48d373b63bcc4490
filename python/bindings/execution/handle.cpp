// Binds MLCExecution, the handle of a submitted run: wait, result, profile, completion handlers and
// await.
#include "execution/handle.h"

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>

#include <traingraph/mutex.h>

#include "convert/data.h"
#include "convert/errors.h"
#include "convert/release.h"

namespace traingraph::python {
namespace {

// Calls into Python that the core still owes. The interpreter must not go before the last one.
class Owed {
 public:
  // Which count is meant.
  int add() {
    const std::lock_guard lock(mutex_);
    ++counts_[now_];
    return now_;
  }
  void done(int which) {
    const LockUnlessLost lock(mutex_);
    if (lock && --counts_[which] == 0) {
      changed_.notify_all();
    }
  }
  // A handler begins, or has ended.
  void in_handlers(int more) {
    const LockUnlessLost lock(mutex_);
    if (!lock) return;
    running_ += more;
    ++changes_;
    changed_.notify_all();
  }
  // For those that are owed by now: threads may add more for ever. Not where handlers run and for a
  // second none of them has ended, nor another one begun.
  void wait() {
    std::unique_lock lock(mutex_);
    const int before = now_;
    now_ = 1 - before;
    while (counts_[before] != 0) {
      if (running_ == 0) {
        changed_.wait(lock);
        continue;
      }
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
      const std::uint64_t changes = changes_;
      while (counts_[before] != 0 && changes_ == changes) {
        if (changed_.wait_until(lock, end) == std::cv_status::timeout) return;
      }
    }
  }

 private:
  Mutex mutex_;
  Condition changed_;
  int counts_[2] = {};
  int now_ = 0;
  int running_ = 0;
  std::uint64_t changes_ = 0;  // of what runs
};

// Never destroyed: a thread of the core may still hold a ticket when static objects go.
Owed& owed() {
  static auto* const instance = new Owed;
  return *instance;
}

// One owed call; dropping it unused counts as done.
class Ticket {
 public:
  Ticket() : which_(owed().add()) {}
  ~Ticket() { owed().done(which_); }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

 private:
  int which_;
};

class RunningHandler {
 public:
  RunningHandler() { owed().in_handlers(1); }
  ~RunningHandler() { owed().in_handlers(-1); }
  RunningHandler(const RunningHandler&) = delete;
  RunningHandler& operator=(const RunningHandler&) = delete;
};

void call_handler(const py::object& function, const TensorPtr& tensor,
                  const std::exception_ptr& error, double seconds) {
  try {
    const py::object result = tensor != nullptr ? py::cast(tensor) : py::none();
    const py::object raised = error ? to_python(error) : py::none();
    call_or_stay(function, py::make_tuple(result, raised, seconds));
  } catch (...) {
    // Also where there is no memory for what it is told.
    set_python_error(std::current_exception());
    PyErr_WriteUnraisable(function.ptr());
  }
}

void settle(const Handle& handle, const py::object& future) {
  if (py::cast<bool>(future.attr("done")())) {
    return;  // cancelled meanwhile
  }
  try {
    future.attr("set_result")(handle.outcome());
  } catch (...) {
    future.attr("set_exception")(to_python(std::current_exception()));
  }
}

}  // namespace

void Handle::wait() const {
  const ReleasedGil released;
  execution_.wait();
}

py::object Handle::result() const {
  wait();
  if (outcome_ == Outcome::kTime) return py::none();
  TensorData data;
  {
    const ReleasedGil released;
    data = execution_.result().on_host();
  }
  return result_of(data);
}

py::object Handle::profile() const {
  wait();
  return py::cast(std::const_pointer_cast<Profile>(execution_.profile()));
}

py::object Handle::outcome() const {
  py::object value = result();
  const double seconds = execution_.seconds();
  return outcome_ == Outcome::kTime ? py::float_(seconds)
                                    : py::object(py::make_tuple(std::move(value), seconds));
}

py::object Handle::await() const {
  const py::object loop = py::module_::import("asyncio").attr("get_running_loop")();
  const py::object future = loop.attr("create_future")();
  const Handle handle = *this;
  if (handle.done()) {
    settle(handle, future);
    return future.attr("__await__")();
  }
  const py::cpp_function finish([handle, future] { settle(handle, future); });
  const auto callbacks = share(py::make_tuple(loop.attr("call_soon_threadsafe"), finish));
  const auto ticket = std::make_shared<const Ticket>();
  {
    const ReleasedGil released;
    execution_.then([callbacks, ticket] {
      const HeldGil held;
      try {
        const py::tuple pair = shared_object(callbacks);
        pair[0](pair[1]);
      } catch (py::error_already_set&) {
        // The loop is closed: no coroutine awaits it.
      }
    });
  }
  return future.attr("__await__")();
}

py::object wrapper_of(Handle handle) {
  static auto* const type = reinterpret_cast<PyTypeObject*>(py::type::of<Handle>().ptr());
  auto object = py::reinterpret_steal<py::object>(py::detail::make_new_instance(type));
  auto place = reinterpret_cast<py::detail::instance*>(object.ptr())->get_value_and_holder();
  auto* const value = new Handle(std::move(handle));
  place.value_ptr() = value;
  new (&place.holder<std::unique_ptr<Handle>>()) std::unique_ptr<Handle>(value);
  place.set_holder_constructed();
  return object;
}

Handle& handle_of(const py::object& wrapper) {
  auto* const object = reinterpret_cast<py::detail::instance*>(wrapper.ptr());
  return *static_cast<Handle*>(object->get_value_and_holder().value_ptr());
}

CompletionHandler completion_handler(py::object function) {
  const auto kept = share(std::move(function));
  const auto ticket = std::make_shared<const Ticket>();
  return [kept, ticket](const TensorPtr& tensor, const std::exception_ptr& error, double seconds) {
    const RunningHandler running;
    const HeldGil held;
    call_handler(shared_object(kept), tensor, error, seconds);
  };
}

void bind_handle(py::module_& module) {
  auto cls = BoundClass<Handle>(module, "MLCExecution",
                                "One submitted execution: true, awaitable, with its result.");
  cls.def("__bool__", [](const Handle&) { return true; });
  cls.def("wait", &Handle::wait, "Returns when the work is done. Errors: what the work raised.");
  cls.def("__repr__", [](const Handle& self) {
    return self.done() ? "<MLCExecution done>" : "<MLCExecution in flight>";
  });
  py::options options;
  options.disable_function_signatures();
  cls.def_property_readonly(
      "result", &Handle::result,
      "The loss of a training step, the last layer's first result of an inference, as a NumPy "
      "scalar or array; "
      "None for gradient and update. Waits.",
      "result(self) -> typing.Any\n\nThe result.");
  cls.def_property_readonly(
      "profile", &Handle::profile,
      "Times per layer, with the option PER_LAYER_PROFILING; else None. Waits.",
      "profile(self) -> Profile | None\n\nTimes.");
  cls.def("__await__", &Handle::await,
          "__await__(self) -> collections.abc.Generator[typing.Any, None, typing.Any]\n\n"
          "(result, execution_time), or execution_time for gradient and update.");
  py::module_::import("atexit").attr("register")(py::cpp_function([process = getpid()] {
    // A forked child has no threads of the core that could pay.
    if (getpid() == process) {
      {
        const ReleasedGil released;
        owed().wait();
      }
      leave_process();
    }
    drop_released();
  }));
}

}  // namespace traingraph::python
