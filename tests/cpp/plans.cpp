// The memory planner and rematerialization for tests in Python: plans, their verification, and
// places of values.
#include <pybind11/stl.h>

#include "passes/passes.h"
#include "testing.h"

namespace traingraph::testing {
namespace {

// bytes, first, last, buffers whose place this one may take
using Row = std::tuple<std::size_t, std::size_t, std::size_t, std::vector<int>>;

std::vector<passes::PlannedBuffer> buffers_from(const std::vector<Row>& rows) {
  std::vector<passes::PlannedBuffer> buffers;
  for (const auto& [bytes, first, last, may_replace] : rows) {
    buffers.push_back({bytes, first, last, may_replace, 0});
  }
  return buffers;
}

std::pair<std::vector<std::size_t>, std::size_t> plan(const std::vector<Row>& rows) {
  const passes::ArenaPlan plan = passes::plan_arena(buffers_from(rows));
  passes::verify_plan(plan);
  std::vector<std::size_t> offsets;
  for (const passes::PlannedBuffer& buffer : plan.buffers) offsets.push_back(buffer.offset);
  return {offsets, plan.bytes};
}

void verify(const std::vector<Row>& rows, const std::vector<std::size_t>& offsets,
            std::size_t bytes) {
  passes::ArenaPlan plan{buffers_from(rows), bytes};
  for (std::size_t k = 0; k < offsets.size(); ++k) plan.buffers.at(k).offset = offsets[k];
  passes::verify_plan(plan);
}

// Offsets by value, -1 for what is not in the arena, and the arena's bytes.
std::pair<std::vector<std::int64_t>, std::size_t> places(const ir::Graph& graph, bool split,
                                                         std::size_t unaliased_step_bytes) {
  passes::KernelRoom room{std::vector<std::size_t>(graph.nodes.size(), 0), 0, unaliased_step_bytes};
  const passes::VariantPlan plan = passes::plan_variant(graph, room, split, {});
  passes::verify_plan(plan.arena);
  std::vector<std::int64_t> offsets;
  for (int buffer : plan.buffer_of) {
    offsets.push_back(buffer < 0
                          ? -1
                          : static_cast<std::int64_t>(
                                plan.arena.buffers[static_cast<std::size_t>(buffer)].offset));
  }
  return {offsets, plan.arena.bytes};
}

// Offsets by node of workspaces of so many bytes each, in the schedule of a step.
std::vector<std::size_t> workspace_places(const ir::Graph& graph, std::size_t bytes,
                                          std::size_t unaliased_result_bytes) {
  passes::KernelRoom room{std::vector<std::size_t>(graph.nodes.size(), bytes),
                          unaliased_result_bytes, 0};
  const passes::VariantPlan plan = passes::plan_variant(graph, room, false, {});
  passes::verify_plan(plan.arena);
  std::vector<std::size_t> offsets;
  for (int buffer : plan.workspace_of) {
    offsets.push_back(plan.arena.buffers.at(static_cast<std::size_t>(buffer)).offset);
  }
  return offsets;
}

passes::KernelRoom no_workspaces(const ir::Graph& graph) {
  return {std::vector<std::size_t>(graph.nodes.size(), 0), 0, 0};
}

ir::Graph with_rematerialized(const ir::Graph& graph, const std::vector<ir::ValueId>& values,
                              const std::string& backend) {
  std::vector<Rematerialized> list;
  for (ir::ValueId value : values) list.push_back({value, 0});
  std::vector<ir::NodeId> origins;
  ir::Graph result = passes::with_rematerialized(graph, backend_named(backend), list, origins);
  ir::verify(result);
  return result;
}

std::tuple<std::vector<ir::ValueId>, std::size_t, bool> choose_rematerialized(
    const ir::Graph& graph, bool apart, std::size_t limit) {
  const passes::Rematerialization chosen = passes::choose_rematerialized(
      graph, backend_named("null"), no_workspaces(graph), {}, apart, limit);
  std::vector<ir::ValueId> values;
  for (const Rematerialized& one : chosen.values) values.push_back(one.value);
  return {values, chosen.arena_bytes, chosen.fits};
}

}  // namespace

void bind_plans(py::module_& module) {
  module.def("plan_arena", plan, py::arg("buffers"), "(offsets, bytes) of a verified plan.");
  module.def("verify_plan", verify, py::arg("buffers"), py::arg("offsets"), py::arg("bytes"));
  module.def("places", places, py::arg("graph"), py::arg("split"), py::arg("unaliased_step_bytes"),
             "(offsets by value or -1, bytes of the arena) of a schedule.");
  module.def("workspace_places", workspace_places, py::arg("graph"), py::arg("bytes"),
             py::arg("unaliased_result_bytes"),
             "Offsets by node of workspaces of so many bytes each.");
  module.def("with_rematerialized", with_rematerialized, py::arg("graph"), py::arg("values"),
             py::arg("backend") = "reference");
  module.def("choose_rematerialized", choose_rematerialized, py::arg("graph"), py::arg("apart"),
             py::arg("limit"), "(values, bytes of the arena, whether that fits the limit).");
}

}  // namespace traingraph::testing
