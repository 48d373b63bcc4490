#include "bindings.h"
#include "classes/record.h"

namespace traingraph::python {

void bind_memory_plan(py::module_& module) {
  auto plan = BoundClass<MemoryPlan>(module, "MemoryPlan",
                                     "What one compiled graph keeps in device memory.");
  auto entry = BoundClass<MemoryPlan::Entry>(plan, "Entry", "One value of a plan.");
  def_record(
      entry, Member{"name", &MemoryPlan::Entry::name, "The tensor or operation, with its layer."},
      Member{"kind", &MemoryPlan::Entry::kind,
             "bound, persistent, saved, gradient, exchange, transient or workspace; of what is "
             "computed again: recomputed."},
      Member{"bytes", &MemoryPlan::Entry::bytes, "Units: bytes."});
  entry.def("__repr__", [](const MemoryPlan::Entry& self) {
    return "<Entry '" + self.name + "' " + self.kind + " " + std::to_string(self.bytes) + " bytes>";
  });
  def_record(plan, Member{"entries", &MemoryPlan::entries, "The values."},
             Member{"recomputed", &MemoryPlan::recomputed,
                    "What the gradient pass computes again for a memory limit, with the bytes that "
                    "are free in between."},
             Member{"arena_bytes", &MemoryPlan::arena_bytes,
                    "Saved, gradient, transient and workspace memory, shared by reuse."},
             Member{"persistent_bytes", &MemoryPlan::persistent_bytes,
                    "Parameters, moments, running statistics, constants."},
             Member{"staging_bytes", &MemoryPlan::staging_bytes,
                    "Copies of inputs that could not be used in place."},
             Member{"exchange_bytes", &MemoryPlan::exchange_bytes,
                    "What the graph hands to linked graphs."},
             Member{"total_bytes", &MemoryPlan::total_bytes,
                    "What is asked of the allocators: arena, persistent, staging, exchange."},
             Member{"library_bytes", &MemoryPlan::library_bytes,
                    "What libraries hold on their own, as far as they tell."},
             Member{"context_bytes", &MemoryPlan::context_bytes,
                    "What a GPU's context and libraries hold there for all graphs, measured."});
  plan.def("__str__", &MemoryPlan::to_string);
  plan.def("__repr__", [](const MemoryPlan& self) {
    return "<MemoryPlan of " + std::to_string(self.total_bytes) + " bytes>";
  });
}

}  // namespace traingraph::python
