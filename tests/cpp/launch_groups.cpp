#include "backends/cuda/launch/launch_groups.h"

#include <pybind11/stl.h>

#include "testing.h"

namespace traingraph::testing {
namespace {

using Positions = std::vector<std::size_t>;

using Listed = std::vector<std::pair<std::vector<Positions>, Positions>>;

// (levels of positions, numbers of groups before it) per group.
Listed listed(const std::vector<cuda::LaunchGroup>& groups) {
  Listed result;
  for (const cuda::LaunchGroup& group : groups) result.emplace_back(group.levels, group.needs);
  return result;
}

Listed launch_groups(const std::vector<Positions>& dependencies, const std::vector<int>& tasks) {
  return listed(cuda::launch_groups_of(dependencies, tasks));
}

Listed launch_order(const std::vector<Positions>& dependencies, const std::vector<int>& tasks,
                    const std::vector<double>& costs, const std::vector<bool>& needed) {
  return listed(cuda::launch_order(cuda::launch_groups_of(dependencies, tasks), costs, needed));
}

}  // namespace

void bind_launch_groups(py::module_& module) {
  module.def("launch_groups", launch_groups, py::arg("dependencies"), py::arg("tasks"),
             "Which nodes of a run the CUDA backend launches together.");
  module.def("launch_order", launch_order, py::arg("dependencies"), py::arg("tasks"),
             py::arg("costs"), py::arg("needed"), "The same in the order that it launches them.");
}

}  // namespace traingraph::testing
