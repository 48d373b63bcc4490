// Scenes of threads for tests in Python: the order of a stream's tasks, who runs them, merging amid
// work, and parts of one kernel.
#include "runtime/threads/stream.h"

#include <pybind11/stl.h>

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cpu/parallel.h"
#include "testing.h"

namespace traingraph::testing {
namespace {

using Event = std::pair<std::string, int>;

// Submits one task per flag while the stream is held, waits for one of them and notes that, then
// for all. A task that leaves something "begins" and is "finished" later; another one does both.
std::vector<Event> run_tasks(const std::vector<bool>& leaves, int wait_for) {
  std::mutex mutex;
  std::vector<Event> events;
  auto note = [&](const char* what, int number) {
    const std::lock_guard lock(mutex);
    events.emplace_back(what, number);
  };
  const auto stream = std::make_shared<Stream>();
  std::vector<std::shared_ptr<Task>> tasks;
  stream->run([&] {
    for (int k = 0; k < static_cast<int>(leaves.size()); ++k) {
      const bool leave = leaves[static_cast<std::size_t>(k)];
      auto task = std::make_shared<Task>();
      task->defers_rest = leave;
      task->work = [&note, k, leave]() -> std::function<void()> {
        note("begin", k);
        if (leave) return [&note, k] { note("finish", k); };
        note("finish", k);
        return nullptr;
      };
      tasks.push_back(task);
      stream->submit({task});
    }
  });
  stream->wait(tasks[static_cast<std::size_t>(wait_for)]);
  note("waited", wait_for);
  for (const auto& task : tasks) stream->wait(task);
  return events;
}

// Who begins and who finishes a task that leaves something and is awaited: "this" thread or
// "another". Nobody waits for it unless `waits`, and `behind` another task it has to queue.
std::pair<std::string, std::string> threads_of_task(bool waits, bool behind) {
  const std::thread::id here = std::this_thread::get_id();
  const auto name = [here] {
    return std::string(std::this_thread::get_id() == here ? "this" : "another");
  };
  std::string begun;
  std::promise<std::string> finished;
  const auto stream = std::make_shared<Stream>();
  auto task = std::make_shared<Task>();
  task->defers_rest = task->is_awaited = true;
  task->work = [&]() -> std::function<void()> {
    begun = name();
    return [&] { finished.set_value(name()); };
  };
  if (behind) {
    auto first = std::make_shared<Task>();
    first->work = [] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return std::function<void()>();
    };
    stream->submit({first});
  }
  stream->submit({task});
  if (waits) stream->wait(task);
  std::string finisher = finished.get_future().get();
  stream->wait(task);
  return {begun, finisher};
}

// Work that notices when it runs beside other work.
class Alone {
 public:
  void work(std::chrono::microseconds time = {}) {
    if (inside_.fetch_add(1) != 0) together_ = true;
    if (time.count() != 0) std::this_thread::sleep_for(time);
    --inside_;
  }
  bool holds() const { return !together_; }

 private:
  std::atomic<int> inside_{0};
  std::atomic<bool> together_{false};
};

// A thread that holds a stream for longer lends it to another one, which merges it with its own
// amid its work.
bool works_alone_after_a_merge() {
  const auto mine = std::make_shared<Stream>(), lent = std::make_shared<Stream>();
  Alone alone;
  std::promise<void> held, compiles;
  std::thread other([&] {
    lent->run([&] {
      held.set_value();
      compiles.get_future().wait();
      {
        const CompilationLock compiling;
      }
      lent->run([&] { alone.work(std::chrono::milliseconds(1)); });
    });
  });
  held.get_future().wait();
  mine->run([&] {
    {
      const CompilationLock compiling;
      compiles.set_value();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      Stream::merge(mine, lent);
    }
    alone.work(std::chrono::milliseconds(20));
  });
  other.join();
  return alone.holds();
}

// Tasks are submitted to a stream while it is merged with another one.
bool tasks_stay_in_order_amid_a_merge() {
  const auto a = std::make_shared<Stream>(), b = std::make_shared<Stream>();
  Alone alone;
  std::promise<void> begun;
  std::thread other([&] {
    for (int k = 0; k < 200; ++k) {
      auto task = std::make_shared<Task>();
      task->work = [&alone]() -> std::function<void()> {
        alone.work();
        return {};
      };
      b->submit({task});
      if (k == 10) begun.set_value();
    }
  });
  begun.get_future().wait();
  a->run([&] {
    Stream::merge(a, b);
    alone.work(std::chrono::microseconds(200));
  });
  other.join();
  b->run([] {});
  return alone.holds();
}

// Two tasks of a held stream, work of a thread that waits for it, two more tasks: 0, 1, 2, 3, 4 as
// they come. `merged`: with a stream that the other thread does not know.
std::vector<int> order_around_a_turn(bool merged) {
  std::mutex mutex;
  std::vector<int> order;
  const auto note = [&](int number) {
    const std::lock_guard lock(mutex);
    order.push_back(number);
  };
  const auto stream = std::make_shared<Stream>(), other = std::make_shared<Stream>();
  std::shared_ptr<Task> last;
  const auto submit = [&](int number) {
    last = std::make_shared<Task>();
    last->work = [&note, number]() -> std::function<void()> {
      note(number);
      return {};
    };
    stream->submit({last});
  };
  std::thread waiting;
  stream->run([&] {
    submit(0);
    submit(1);
    waiting = std::thread([&] { stream->run([&] { note(2); }); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    submit(3);
    submit(4);
    if (merged) Stream::merge(other, stream);
  });
  stream->wait(last);
  waiting.join();
  return order;
}

// Whether the first of four parts, which waits for the second one as if it had lost its core, sees
// it done.
bool parts_are_taken_over(double seconds) {
  std::atomic<bool> done{false};
  bool seen = false;
  cpu::parallel_for(4, 2, [&](std::int64_t part) {
    if (part == 1) done = true;
    if (part != 0) return;
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!done && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    seen = done;
  });
  return seen;
}

// How often each of the parts was run.
std::vector<int> runs_of_parts(std::int64_t parts, int threads) {
  std::vector<std::atomic<int>> runs(static_cast<std::size_t>(parts));
  cpu::parallel_for(parts, threads,
                    [&](std::int64_t part) { ++runs[static_cast<std::size_t>(part)]; });
  return {runs.begin(), runs.end()};
}

}  // namespace

void bind_streams(py::module_& module) {
  module.def("run_tasks", run_tasks, py::arg("leaves"), py::arg("wait_for"),
             py::call_guard<py::gil_scoped_release>(),
             "What happened to tasks of one stream, in order: (\"begin\", k), (\"finish\", k) and "
             "(\"waited\", wait_for).");
  module.def("threads_of_task", threads_of_task, py::arg("waits"), py::arg("behind"),
             py::call_guard<py::gil_scoped_release>(),
             "Which threads begin and finish a task that is likely to be waited for.");
  module.def("works_alone_after_a_merge", works_alone_after_a_merge,
             py::call_guard<py::gil_scoped_release>(), "Whether two threads were never in it.");
  module.def("order_around_a_turn", order_around_a_turn, py::arg("merged"),
             py::call_guard<py::gil_scoped_release>(),
             "Tasks and the work of a thread that waits for the stream, as they come.");
  module.def("parts_are_taken_over", parts_are_taken_over, py::arg("seconds"),
             py::call_guard<py::gil_scoped_release>(),
             "Whether a thread takes what another one, which is held up, has not begun.");
  module.def("runs_of_parts", runs_of_parts, py::arg("parts"), py::arg("threads"),
             py::call_guard<py::gil_scoped_release>(), "How often each of the parts was run.");
  module.def("tasks_stay_in_order_amid_a_merge", tasks_stay_in_order_amid_a_merge,
             py::call_guard<py::gil_scoped_release>(), "Whether no two of them ran at once.");
}

}  // namespace traingraph::testing
