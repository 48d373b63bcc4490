#include "backends/cuda/units.h"

#include <pybind11/stl.h>

#include "testing.h"

namespace traingraph::testing {
namespace {

using Positions = std::vector<std::size_t>;

using Listed = std::vector<std::pair<std::vector<Positions>, Positions>>;

// (levels of positions, numbers of units before it) per unit.
Listed listed(const std::vector<cuda::Unit>& units) {
  Listed result;
  for (const cuda::Unit& unit : units) result.emplace_back(unit.levels, unit.needs);
  return result;
}

Listed launch_units(const std::vector<Positions>& dependencies, const std::vector<int>& tasks) {
  return listed(cuda::units_of(dependencies, tasks));
}

Listed launch_order(const std::vector<Positions>& dependencies, const std::vector<int>& tasks,
                    const std::vector<double>& costs, const std::vector<bool>& needed) {
  return listed(cuda::launch_order(cuda::units_of(dependencies, tasks), costs, needed));
}

}  // namespace

void bind_units(py::module_& module) {
  module.def("launch_units", launch_units, py::arg("dependencies"), py::arg("tasks"),
             "Which nodes of a run the CUDA backend launches together.");
  module.def("launch_order", launch_order, py::arg("dependencies"), py::arg("tasks"),
             py::arg("costs"), py::arg("needed"), "The same in the order that it launches them.");
}

}  // namespace traingraph::testing
