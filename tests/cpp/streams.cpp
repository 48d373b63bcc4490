#include "runtime/stream.h"

#include <pybind11/stl.h>

#include <mutex>
#include <utility>
#include <vector>

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
      task->leaves = leave;
      task->work = [&note, k, leave]() -> std::function<void()> {
        note("begin", k);
        if (leave) return [&note, k] { note("finish", k); };
        note("finish", k);
        return nullptr;
      };
      tasks.push_back(task);
      stream->submit(task);
    }
  });
  stream->wait(tasks[static_cast<std::size_t>(wait_for)]);
  note("waited", wait_for);
  for (const auto& task : tasks) stream->wait(task);
  return events;
}

}  // namespace

void bind_streams(py::module_& module) {
  module.def("run_tasks", run_tasks, py::arg("leaves"), py::arg("wait_for"),
             py::call_guard<py::gil_scoped_release>(),
             "What happened to tasks of one stream, in order: (\"begin\", k), (\"finish\", k) and "
             "(\"waited\", wait_for).");
}

}  // namespace traingraph::testing
