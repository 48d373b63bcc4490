#include "backends/cuda/units.h"

#include <pybind11/stl.h>

#include "testing.h"

namespace traingraph::testing {
namespace {

using Positions = std::vector<std::size_t>;

// (levels of positions, numbers of units before it) per unit.
std::vector<std::pair<std::vector<Positions>, Positions>> launch_units(
    const std::vector<Positions>& dependencies, const std::vector<int>& tasks) {
  std::vector<std::pair<std::vector<Positions>, Positions>> result;
  for (const cuda::Unit& unit : cuda::units_of(dependencies, tasks)) {
    result.emplace_back(unit.levels, unit.needs);
  }
  return result;
}

}  // namespace

void bind_units(py::module_& module) {
  module.def("launch_units", launch_units, py::arg("dependencies"), py::arg("tasks"),
             "Which nodes of a run the CUDA backend launches together.");
}

}  // namespace traingraph::testing
