// Checks the types of what nodes read, before anything is lowered.
#include "graph/lowering/floating_type.h"

#include <traingraph/errors.h>

namespace traingraph {
namespace {

constexpr const char* kOfParameters = "parameters of float32 or float64 but got";

[[noreturn]] void refuse(const std::string& call, const NodeRecord& node, const Tensor& tensor,
                         const std::string& expected) {
  throw DataTypeError("[" + call + "] expected " + expected + ", for tensor '" + tensor.label() +
                      "', " + name(tensor.descriptor().data_type) + " at layer " +
                      std::to_string(node.layer->id()) + " '" + node.layer->label() + "'");
}

}  // namespace

DataType floating_type_of(const char* call, const std::vector<NodeRecord>& nodes,
                          const std::set<const Tensor*>& tensor_parameters) {
  DataType found = DataType::kInvalid;
  const auto add = [&](const NodeRecord& node, const Tensor& tensor, bool is_parameter) {
    const DataType own = tensor.descriptor().data_type;
    if (!is_floating_point(own)) return;
    const DataType type = ir::is_half(own) ? DataType::kFloat32 : own;
    if (found == DataType::kInvalid) found = type;
    if (found != type) {
      refuse(call, node, tensor,
             "one floating-point type but got " + std::string(name(found)) + " and");
    }
    if (is_parameter && ir::is_half(own)) refuse(call, node, tensor, kOfParameters);
  };
  for (const NodeRecord& node : nodes) {
    for (const TensorPtr& tensor : node.sources) {
      if (tensor != nullptr) add(node, *tensor, tensor_parameters.contains(tensor.get()));
    }
    for (const auto& [role, tensor] : node.layer->named_parameters()) {
      if (tensor == nullptr) continue;
      if (!is_floating_point(tensor->descriptor().data_type)) {
        refuse(call, node, *tensor, kOfParameters);
      }
      add(node, *tensor, true);
    }
  }
  return found == DataType::kInvalid ? DataType::kFloat32 : found;
}

}  // namespace traingraph
