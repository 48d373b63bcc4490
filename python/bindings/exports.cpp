// What `from traingraph import *` gives, and what traingraph.mps has of the extension.
#include <set>
#include <string>

#include "bindings.h"

namespace traingraph::python {
namespace {

using Names = std::set<std::string>;

const Names kFunctions = {"check_gradients", "get_num_threads", "sequential", "set_num_threads"};
const Names kMpsFunctions = {"create_system_default_device", "image_batch_increment_read_count",
                             "state_batch_increment_read_count"};
// Classes that are only returned, and kernels that Apple's graphs have and its headers do not.
const Names kUnlisted = {"ExecutableGraph", "MemoryPlan", "MPSNNConcatenation",
                         "MPSNNReductionSpatialMean", "MPSNNReductionSpatialMeanGradient"};

}  // namespace

void list_exports(py::module_& module) {
  py::list mlcompute, mps;
  for (const auto& [key, value] : py::dict(module.attr("__dict__"))) {
    const auto name = py::cast<std::string>(key);
    const bool is_class = PyType_Check(value.ptr()) && name[0] != '_' && !kUnlisted.contains(name);
    const bool is_mps = name.starts_with("MPS") || name.starts_with("MTL");
    if (kMpsFunctions.contains(name) || (is_class && is_mps)) {
      mps.append(key);
    } else if (kFunctions.contains(name) || is_class) {
      mlcompute.append(key);
    }
  }
  module.attr("__all__") = mlcompute;
  module.attr("_mps_names") = mps;
}

}  // namespace traingraph::python
