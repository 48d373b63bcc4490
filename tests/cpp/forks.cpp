// What a forked child finds of locks and threads of its parent.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <traingraph/errors.h>
#include <traingraph/mutex.h>

#include "runtime/threads/fork_guard.h"
#include "testing.h"

namespace traingraph::testing {
namespace {

constexpr unsigned kSeconds = 10;  // then a child hangs

template <class Say>
std::string in_child(const Say& say) {
  int ends[2];
  if (pipe(ends) != 0) throw InternalError("[in_child] expected a pipe but got none");
  const pid_t child = fork();
  if (child == 0) {
    alarm(kSeconds);
    const std::string said = say();
    _exit(write(ends[1], said.data(), said.size()) < 0 ? 1 : 0);
  }
  close(ends[1]);
  std::string said(64, ' ');
  const ssize_t length = read(ends[0], said.data(), said.size());
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return "hangs";
  return said.substr(0, length < 0 ? 0 : static_cast<std::size_t>(length));
}

// While another thread does something, until this is destroyed.
class Beside {
 public:
  template <class Begin>
  explicit Beside(const Begin& begin) {
    std::promise<void> begun;
    thread_ = std::thread([this, &begin, &begun] {
      [[maybe_unused]] const auto held = begin();
      begun.set_value();
      end_.get_future().wait();
    });
    begun.get_future().wait();
  }
  ~Beside() {
    end_.set_value();
    thread_.join();
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

 private:
  std::promise<void> end_;
  std::thread thread_;
};

template <class Lockable>
std::string lock_in_child(const std::string& how, bool held_by_parent) {
  Lockable mutex, other;
  mutex.lock();
  mutex.unlock();
  std::optional<Beside> beside;
  if (held_by_parent) beside.emplace([&] { return std::unique_lock(mutex); });
  return in_child([&]() -> std::string {
    try {
      if (how == "lock") mutex.lock();
      if (how == "try_lock" && !mutex.try_lock()) return "refuses";
      if (how == "lock_unless_lost" && !mutex.lock_unless_lost()) return "refuses";
      if (how == "both") std::lock(other, mutex);
      if (how != "lock_unless_lost") mutex.unlock();
    } catch (const DeviceError&) {
      return "raises";
    }
    if (how == "lock_unless_lost") mutex.unlock();
    // Threads of the child wait for each other as usual.
    mutex.lock();
    std::future<void> waits = std::async(std::launch::async, [&] { mutex.lock(); });
    if (waits.wait_for(std::chrono::milliseconds(20)) == std::future_status::ready) return "both";
    mutex.unlock();
    waits.wait();
    return "locks";
  });
}

std::string lock_after_fork(const std::string& how, bool held_by_parent, bool recursive) {
  return recursive ? lock_in_child<RecursiveMutex>(how, held_by_parent)
                   : lock_in_child<Mutex>(how, held_by_parent);
}

// A condition for which threads of the parent wait: notified, waited for and destroyed.
std::string condition_after_fork() {
  Mutex mutex;
  auto condition = std::make_unique<Condition>();
  bool over = false;
  std::thread waiter([&] {
    std::unique_lock lock(mutex);
    condition->wait(lock, [&] { return over; });
  });
  for (int k = 0; k < 50; ++k) {
    condition->notify_all();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::string said = in_child([&]() -> std::string {
    condition->notify_all();
    std::unique_lock lock(mutex);
    if (condition->wait_for(lock, std::chrono::milliseconds(1)) == std::cv_status::no_timeout) {
      return "wakes";
    }
    std::thread([&] {
      const std::lock_guard guard(mutex);
      over = true;
      condition->notify_all();
    }).detach();
    condition->wait(lock, [&] { return over; });
    condition = nullptr;
    return "works";
  });
  {
    const std::lock_guard lock(mutex);
    over = true;
  }
  condition->notify_all();
  waiter.join();
  return said;
}

// Whether new threads of the child, one after another, are told from one that is gone.
std::string threads_after_fork() {
  ThreadId other = 0;
  const ThreadId here = this_thread();
  const Beside beside([&] { return other = this_thread(); });
  return in_child([&]() -> std::string {
    if (is_gone(here) || !is_gone(other)) return "confuses threads of the parent";
    bool confused = false;
    for (int k = 0; k < 8; ++k) {
      std::thread([&] { confused |= this_thread() == other || is_gone(this_thread()); }).join();
    }
    return confused ? "confuses new threads" : "tells them apart";
  });
}

std::string library_call_after_fork(bool amid) {
  std::optional<Beside> beside;
  if (amid) beside.emplace([] { return std::make_unique<LibraryCall>(); });
  const LibraryCall outer;  // of the thread that forks
  return in_child([&]() -> std::string {
    try {
      const LibraryCall inner;
      return "works";
    } catch (const DeviceError&) {
      return "raises";
    }
  });
}

}  // namespace

void bind_forks(py::module_& module) {
  const py::call_guard<py::gil_scoped_release> released;
  module.def("lock_after_fork", lock_after_fork, py::arg("how"), py::arg("held_by_parent"),
             py::arg("recursive"), released, "What a child's lock comes to.");
  module.def("condition_after_fork", condition_after_fork, released,
             "What a child's use of a condition comes to for which a thread of the parent waits.");
  module.def("threads_after_fork", threads_after_fork, released,
             "Whether a child tells its threads from those of the parent.");
  module.def("library_call_after_fork", library_call_after_fork, py::arg("amid"), released,
             "What a child's call of a vendor's library comes to.");
}

}  // namespace traingraph::testing
