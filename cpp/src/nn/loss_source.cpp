// Looks in the graph for what a prediction was made by.
#include "nn/loss_source.h"

#include <algorithm>
#include <set>
#include <vector>

#include <traingraph/activation.h>
#include <traingraph/arithmetic.h>
#include <traingraph/attention.h>
#include <traingraph/convolution.h>
#include <traingraph/data_movement.h>
#include <traingraph/embedding.h>
#include <traingraph/errors.h>
#include <traingraph/indexing.h>
#include <traingraph/layer_normalization.h>
#include <traingraph/lstm.h>
#include <traingraph/softmax.h>

namespace traingraph::nn {
namespace {

template <class... Layers>
bool is_any_of(const LayerPtr& layer) {
  return (... || (dynamic_cast<const Layers*>(layer.get()) != nullptr));
}

// Null of an input.
LayerPtr maker_of(const Graph& graph, const TensorPtr& tensor) {
  const std::vector<LayerPtr> layers = graph.layers();
  const auto makes = [&](const LayerPtr& layer) {
    const std::vector<TensorPtr> results = graph.result_tensors(layer);
    return std::ranges::find(results, tensor) != results.end();
  };
  const auto found = std::find_if(layers.rbegin(), layers.rend(), makes);
  return found == layers.rend() ? nullptr : *found;
}

bool is_softmax(const LayerPtr& layer) {
  const auto* const softmax = dynamic_cast<const Softmax*>(layer.get());
  return softmax != nullptr && softmax->operation() == SoftmaxOperation::kSoftmax;
}

bool is_sigmoid(const LayerPtr& layer) {
  const auto* const activation = dynamic_cast<const Activation*>(layer.get());
  return activation != nullptr && activation->descriptor().type == ActivationType::kSigmoid;
}

// The layer that has put channels on the last axis, also where others stand between; null: none.
class ChannelsLast {
 public:
  explicit ChannelsLast(const Graph& graph) : graph_(graph) {}

  LayerPtr find(const TensorPtr& tensor) {
    if (!known_.insert(tensor.get()).second) return nullptr;
    const LayerPtr layer = maker_of(graph_, tensor);
    if (is_any_of<FullyConnected, LSTM, MultiheadAttention, Embedding>(layer)) return layer;
    if (is_any_of<Transpose>(layer)) return find_conv1d(layer);
    const bool keeps = is_any_of<Activation, Dropout, Softmax, LayerNormalization, Arithmetic,
                                 Concatenation, Split>(layer);
    if (!keeps) return nullptr;
    for (const TensorPtr& source : graph_.source_tensors(layer)) {
      if (const LayerPtr found = find(source)) return found;
    }
    return nullptr;
  }

 private:
  // Of conv1d(), an image of one row whose channels go behind its steps.
  LayerPtr find_conv1d(const LayerPtr& transpose) const {
    const LayerPtr reshape = maker_of(graph_, graph_.source_tensors(transpose).front());
    if (!is_any_of<Reshape>(reshape)) return nullptr;
    const LayerPtr convolution = maker_of(graph_, graph_.source_tensors(reshape).front());
    return is_any_of<Convolution>(convolution) ? convolution : nullptr;
  }

  const Graph& graph_;
  std::set<const Tensor*> known_;
};

const char* name_of(LossType type) {
  return type == LossType::kSoftmaxCrossEntropy ? "softmax_cross_entropy"
                                                : "categorical_cross_entropy";
}

}  // namespace

void expect_logits(const Graph& graph, const TensorPtr& prediction, LossType type,
                   const std::string& subject) {
  const bool of_classes = type == LossType::kSoftmaxCrossEntropy;
  if (!of_classes && type != LossType::kSigmoidCrossEntropy) return;
  LayerPtr layer = maker_of(graph, prediction);
  while (is_any_of<Reshape, Transpose>(layer)) {
    layer = maker_of(graph, graph.source_tensors(layer).front());
  }
  if (!(of_classes ? is_softmax(layer) : is_sigmoid(layer))) return;
  throw InvalidArgument(
      "[" + subject + "] expected logits for " +
      (of_classes ? "softmax_cross_entropy, which takes their softmax, but got what softmax has "
                    "made; leave it out, or write loss='categorical_cross_entropy', whose labels "
                    "are floats (one-hot)"
                  : "sigmoid_cross_entropy, which takes their sigmoid, but got what sigmoid has "
                    "made; leave it out, or write loss='log'"));
}

void expect_classes_first(const Graph& graph, const TensorPtr& prediction, LossType type,
                          bool are_classes, const std::string& subject) {
  if (type != LossType::kSoftmaxCrossEntropy && type != LossType::kCategoricalCrossEntropy) return;
  const Shape& shape = prediction->descriptor().shape;
  // Other classes do not fit labels of steps.
  const bool may_be_meant =
      are_classes ? shape.size() == 3 && shape[1] == shape[2] : shape.size() == 3 && shape[2] > 1;
  if (!may_be_meant) return;
  const LayerPtr layer = ChannelsLast(graph).find(prediction);
  if (layer == nullptr) return;
  throw InvalidArgument("[" + subject + "] expected classes on axis 1, over which " +
                        name_of(type) + " goes, but got " + to_string(shape) + " of " +
                        layer->description() +
                        ", whose classes are on axis 2; nn.permute((2, 1)) brings them to axis 1, "
                        "and nn.reshape(" +
                        to_string({shape[1], shape[2]}) + ") says that axis 1 has them");
}

void expect_several_classes(const TensorPtr& prediction, LossType type,
                            const std::string& subject) {
  const Shape& shape = prediction->descriptor().shape;
  if (type != LossType::kSoftmaxCrossEntropy || shape.size() < 2 || shape[1] != 1) return;
  throw InvalidArgument("[" + subject +
                        "] expected 2 or more classes on axis 1 of the prediction " +
                        "for softmax_cross_entropy but got " + to_string(shape) +
                        ", whose softmax is 1 everywhere; for numbers write loss='mse', for two " +
                        "classes by one logit 'sigmoid_cross_entropy'");
}

}  // namespace traingraph::nn
