#include "bindings.h"
#include "record.h"

namespace traingraph::python {

void bind_memory_plan(py::module_& module) {
  auto plan = BoundClass<MemoryPlan>(module, "MemoryPlan",
                                     "What one compiled graph keeps in device memory.");
  auto entry = BoundClass<MemoryPlan::Entry>(plan, "Entry", "One value of a plan.");
  entry.def_readonly("name", &MemoryPlan::Entry::name, "The tensor or operation, with its layer.");
  entry.def_readonly(
      "kind", &MemoryPlan::Entry::kind,
      "bound, persistent, saved, gradient, exchange, transient or workspace; of what is "
      "computed again: recomputed.");
  entry.def_readonly("bytes", &MemoryPlan::Entry::bytes, "Units: bytes.");
  def_record(entry, &MemoryPlan::Entry::name, &MemoryPlan::Entry::kind, &MemoryPlan::Entry::bytes);
  entry.def("__repr__", [](const MemoryPlan::Entry& self) {
    return "<Entry '" + self.name + "' " + self.kind + " " + std::to_string(self.bytes) + " bytes>";
  });
  plan.def_readonly("entries", &MemoryPlan::entries, "The values.");
  plan.def_readonly("recomputed", &MemoryPlan::recomputed,
                    "What the gradient pass computes again for a memory limit, with the bytes that "
                    "are free in between.");
  plan.def_readonly("arena_bytes", &MemoryPlan::arena_bytes,
                    "Saved, gradient, transient and workspace memory, shared by reuse.");
  plan.def_readonly("persistent_bytes", &MemoryPlan::persistent_bytes,
                    "Parameters, moments, running statistics, constants.");
  plan.def_readonly("staging_bytes", &MemoryPlan::staging_bytes,
                    "Copies of inputs that could not be used in place.");
  plan.def_readonly("exchange_bytes", &MemoryPlan::exchange_bytes,
                    "What the graph hands to linked graphs.");
  plan.def_readonly("total_bytes", &MemoryPlan::total_bytes,
                    "What is asked of the allocators: arena, persistent, staging, exchange.");
  plan.def_readonly("library_bytes", &MemoryPlan::library_bytes,
                    "What libraries hold on their own, as far as they tell.");
  plan.def_readonly("context_bytes", &MemoryPlan::context_bytes,
                    "What a GPU's context and libraries hold there for all graphs, measured.");
  def_record(plan, &MemoryPlan::entries, &MemoryPlan::recomputed, &MemoryPlan::arena_bytes,
             &MemoryPlan::persistent_bytes, &MemoryPlan::staging_bytes, &MemoryPlan::exchange_bytes,
             &MemoryPlan::total_bytes, &MemoryPlan::library_bytes, &MemoryPlan::context_bytes);
  plan.def("__str__", &MemoryPlan::to_string);
  plan.def("__repr__", [](const MemoryPlan& self) {
    return "<MemoryPlan of " + std::to_string(self.total_bytes) + " bytes>";
  });
}

}  // namespace traingraph::python
