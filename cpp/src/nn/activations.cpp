// Activation blocks by name: ML Compute's names, and those of Keras and PyTorch.
#include <traingraph/activation.h>
#include <traingraph/softmax.h>

#include "nn/layer_block.h"

namespace traingraph::nn {
namespace {

using Type = ActivationType;

struct Row {
  std::string name;
  Type type;
  std::optional<float> a = {}, b = {};  // none: the type's own
};

// Names of the types, and those of Keras and PyTorch that are others.
std::vector<Row> make_rows() {
  std::vector<Row> rows{{"relu", Type::kReLU},
                        {"leaky_relu", Type::kReLU, 0.01f},
                        {"relu6", Type::kReLUN, 0.0f, 6.0f}};
  const std::vector<std::string> names = activation_names();
  for (std::size_t k = static_cast<std::size_t>(Type::kLinear); k < names.size(); ++k) {
    rows.push_back({names[k], static_cast<Type>(k)});
  }
  const Row others[] = {{"softplus", Type::kSoftPlus},
                        {"softsign", Type::kSoftSign},
                        // Not of elements: below.
                        {"softmax", Type::kNone},
                        {"log_softmax", Type::kNone}};
  rows.insert(rows.end(), std::begin(others), std::end(others));
  return rows;
}

Block softmax_block(const std::string& name) {
  const auto operation =
      name == "softmax" ? SoftmaxOperation::kSoftmax : SoftmaxOperation::kLogSoftmax;
  const auto make = [operation](const GraphPtr& graph, const TensorPtr& x, bool) {
    const auto rank = static_cast<std::int64_t>(x->descriptor().shape.size());
    return graph->node(std::make_shared<Softmax>(operation, rank == 4 ? 1 : rank - 1), x);
  };
  return layer_block(name, make);
}

}  // namespace

Block activation(const std::string& name, std::optional<float> a, std::optional<float> b) {
  static const std::vector<Row> rows = make_rows();
  const Row& row = row_named(rows, "activation", "one", name);
  if (row.type == Type::kNone) {
    if (!a && !b) return softmax_block(name);
    throw InvalidArgument("[" + name + "] expected no a and b but got one");
  }
  const ActivationDescriptor d(row.type, a ? a : row.a, b ? b : row.b);
  const Block::Kind kind = Block(std::make_shared<Activation>(d)).kind();
  const auto make = [d](const GraphPtr& graph, const TensorPtr& x, bool) {
    return graph->node(std::make_shared<Activation>(d), x);
  };
  return layer_block(name, make, kind);
}

}  // namespace traingraph::nn
