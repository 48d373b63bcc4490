#include "bindings.h"
#include "collector.h"
#include "unmade_objects.h"

PYBIND11_MODULE(_core, module) {
  using namespace traingraph::python;
  module.doc() = "ML Compute's classes over the C++ core. Import traingraph instead.";
  bind_collector();
  bind_signals();
  bind_errors(module);
  bind_enums(module);
  bind_device(module);
  bind_tensor_data(module);
  bind_tensor_descriptor(module);
  bind_tensor(module);
  bind_layers(module);
  bind_optimizers(module);
  bind_fit(module);
  bind_profile(module);
  bind_execution(module);
  bind_graph(module);
  bind_memory_plan(module);
  bind_executable_graphs(module);
  bind_check_gradients(module);
  bind_mps(module);
  list_exports(module);
  refuse_unmade_objects();
}
