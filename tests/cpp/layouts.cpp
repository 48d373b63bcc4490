#include <pybind11/stl.h>

#include <traingraph/device.h>

#include "passes/passes.h"
#include "testing.h"

namespace traingraph::testing {

// What compiling does to a graph before its kernels are made, step by step.
void bind_layouts(py::module_& module) {
  module.def(
      "fused",
      [](const ir::Graph& graph, const std::string& backend) {
        return passes::fuse(graph, backend_named(backend));
      },
      py::arg("graph"), py::arg("backend"), "The graph after fusion for this backend.");
  module.def(
      "with_layouts",
      [](const ir::Graph& graph, const std::string& backend, std::size_t parameters) {
        const std::vector<passes::ParameterLayout> free(parameters);
        return passes::assign_layouts(graph, backend_named(backend), free, true);
      },
      py::arg("graph"), py::arg("backend"), py::arg("parameters") = 0,
      "The graph in the layouts this backend's kernels ask for. Inputs stay plain, values keep "
      "their numbers; so many parameters may lie as their first kernel wants.");
  module.def(
      "layout",
      [](const ir::Graph& graph, ir::ValueId value) {
        return ir::to_string(graph.value(value).layout);
      },
      py::arg("graph"), py::arg("value"));
  module.def(
      "set_layout",
      [](ir::Graph& graph, ir::ValueId value, std::vector<int> order,
         const std::vector<std::pair<int, std::int64_t>>& blocks) {
        ir::Layout layout{std::move(order), {}};
        for (const auto& [axis, size] : blocks) layout.blocks.push_back({axis, size});
        graph.value(value).layout = ir::normalized(std::move(layout));
      },
      py::arg("graph"), py::arg("value"), py::arg("order"), py::arg("blocks"),
      "Says how a value lies in memory: axes outermost first, then blocks (axis, size).");
  module.def("set_thread_count", &Platform::set_thread_count, py::arg("count"));
}

}  // namespace traingraph::testing
