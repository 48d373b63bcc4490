// What `from traingraph import *` gives, and what traingraph.mps and traingraph.nn have of the
// extension.
#include <set>
#include <string>

#include "bindings.h"

namespace traingraph::python {
namespace {

using Names = std::set<std::string>;

const Names kFunctions = {"check_gradients", "get_num_threads", "sequential", "set_num_threads"};
const Names kMpsFunctions = {"create_system_default_device", "image_batch_increment_read_count",
                             "image_batch_synchronize", "state_batch_increment_read_count",
                             "state_batch_synchronize"};
const Names kNnNames = {"Block",         "Input",      "Value",
                        "abs",           "activation", "adam",
                        "adamw",         "attention",  "average_pool",
                        "batch_norm",    "clip",       "concatenate",
                        "conv1d",        "conv2d",     "conv2d_transpose",
                        "cos",           "dense",      "dropout",
                        "embedding",     "exp",        "flatten",
                        "gather",        "group_norm", "gru",
                        "layer_norm",    "log",        "loss",
                        "lstm",          "matmul",     "max_pool",
                        "maximum",       "mean",       "minimum",
                        "model",         "permute",    "positional_embedding",
                        "reshape",       "residual",   "rmsprop",
                        "sequential",    "sgd",        "shared",
                        "sin",           "sqrt",       "square",
                        "stop_gradient", "sum",        "tanh",
                        "where"};
// Classes that are only returned, and kernels that Apple's graphs have and its headers do not.
const Names kUnlisted = {"Block",
                         "Communicator",
                         "ExecutableGraph",
                         "FitCallback",
                         "MemoryPlan",
                         "MPSNNConcatenation",
                         "MPSNNReductionSpatialMean",
                         "MPSNNReductionSpatialMeanGradient",
                         "Value"};

}  // namespace

void list_exports(py::module_& module) {
  py::list mlcompute, mps, nn;
  for (const auto& [key, value] : py::dict(module.attr("__dict__"))) {
    const auto name = py::cast<std::string>(key);
    const bool is_class = PyType_Check(value.ptr()) && name[0] != '_' && !kUnlisted.contains(name);
    if (kNnNames.contains(name)) nn.append(key);
    const bool is_mps = name.starts_with("MPS") || name.starts_with("MTL");
    if (kMpsFunctions.contains(name) || (is_class && is_mps)) {
      mps.append(key);
    } else if (kFunctions.contains(name) || is_class) {
      mlcompute.append(key);
    }
  }
  module.attr("__all__") = mlcompute;
  if (mps.contains("MPSKernel")) module.attr("_mps_names") = mps;
  module.attr("_nn_names") = nn;
}

}  // namespace traingraph::python
