// Checks the types of what layers read, before anything is lowered.
#include "graph/lowering/floating_type.h"

#include <traingraph/errors.h>

namespace traingraph {
namespace {

// The one floating-point type of all that it was given; it names the call.
class FloatingType {
 public:
  explicit FloatingType(const char* call) : call_(call) {}

  DataType found() const { return found_; }

  void add_source(const Layer& layer, const Tensor& tensor, bool is_parameter) {
    const DataType own = tensor.descriptor().data_type;
    if (!is_floating_point(own)) return;
    const DataType type = ir::is_half(own) ? DataType::kFloat32 : own;
    if (found_ == DataType::kInvalid) found_ = type;
    if (found_ != type) {
      refuse(layer, tensor,
             "one floating-point type but got " + std::string(name(found_)) + " and");
    }
    if (is_parameter && ir::is_half(own)) refuse(layer, tensor, kOfParameters);
  }
  void add_parameters(const Layer& layer) {
    for (const auto& [role, tensor] : layer.named_parameters()) {
      if (tensor == nullptr) continue;
      if (!is_floating_point(tensor->descriptor().data_type)) {
        refuse(layer, *tensor, kOfParameters);
      }
      add_source(layer, *tensor, true);
    }
  }

 private:
  static constexpr const char* kOfParameters = "parameters of float32 or float64 but got";

  [[noreturn]] void refuse(const Layer& layer, const Tensor& tensor,
                           const std::string& expected) const {
    throw DataTypeError("[" + std::string(call_) + "] expected " + expected + ", for tensor '" +
                        tensor.label() + "', " + name(tensor.descriptor().data_type) +
                        " at layer " + std::to_string(layer.id()) + " '" + layer.label() + "'");
  }

  const char* call_;
  DataType found_ = DataType::kInvalid;
};

}  // namespace

DataType floating_type_of(const std::vector<NodeRecord>& nodes,
                          const std::set<const Tensor*>& tensor_parameters) {
  FloatingType type("compile");
  for (const NodeRecord& node : nodes) {
    for (const TensorPtr& tensor : node.sources) {
      type.add_source(*node.layer, *tensor, tensor_parameters.contains(tensor.get()));
    }
    type.add_parameters(*node.layer);
  }
  return type.found() == DataType::kInvalid ? DataType::kFloat32 : type.found();
}

void check_parameter_types(const Layer& layer, const std::vector<TensorPtr>& sources) {
  FloatingType type("node");
  for (const TensorPtr& tensor : sources) {
    if (tensor != nullptr && type.found() == DataType::kInvalid) {
      type.add_source(layer, *tensor, false);
    }
  }
  type.add_parameters(layer);
}

}  // namespace traingraph
