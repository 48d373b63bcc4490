// `nn::model`, which makes a compiled training graph of blocks, and the short forms of the
// optimizers.
#include <traingraph/data_movement.h>
#include <traingraph/loss.h>

#include "nn/layer_block.h"

namespace traingraph::nn {
namespace {

struct LossRow {
  const char* name;
  LossType type;
};
constexpr LossRow kLosses[] = {
    {"softmax_cross_entropy", LossType::kSoftmaxCrossEntropy},
    {"sigmoid_cross_entropy", LossType::kSigmoidCrossEntropy},
    {"categorical_cross_entropy", LossType::kCategoricalCrossEntropy},
    {"mean_squared_error", LossType::kMeanSquaredError},
    {"mean_absolute_error", LossType::kMeanAbsoluteError},
    {"huber", LossType::kHuber},
    {"hinge", LossType::kHinge},
    {"cosine_distance", LossType::kCosineDistance},
    {"log", LossType::kLog},
    {"mse", LossType::kMeanSquaredError},
    {"mae", LossType::kMeanAbsoluteError},
};

struct OptimizerRow {
  const char* name;
  OptimizerPtr (*make)();
};
constexpr OptimizerRow kOptimizers[] = {
    {"adam", [] { return adam(); }},
    {"adamw", [] { return adamw(); }},
    {"sgd", [] { return sgd(); }},
    {"rmsprop", [] { return rmsprop(); }},
};

OptimizerDescriptor with_rate(float learning_rate) {
  OptimizerDescriptor d;
  d.learning_rate = learning_rate;
  return d;
}

std::shared_ptr<Loss> loss_of(const ModelOptions& options) {
  if (const auto* name = std::get_if<std::string>(&options.loss)) {
    LossDescriptor d;
    d.type = row_named(kLosses, "model", "a loss", *name).type;
    return std::make_shared<Loss>(d);
  }
  const auto& layer = std::get<LayerPtr>(options.loss);
  auto loss = std::dynamic_pointer_cast<Loss>(layer);
  if (loss == nullptr) {
    throw InvalidArgument("[model] expected a loss layer but got " +
                          (layer == nullptr ? "none" : layer->description()));
  }
  return loss;
}

OptimizerPtr optimizer_of(const ModelOptions& options) {
  if (const auto* name = std::get_if<std::string>(&options.optimizer)) {
    return row_named(kOptimizers, "model", "an optimizer", *name).make();
  }
  OptimizerPtr optimizer = std::get<OptimizerPtr>(options.optimizer);
  if (optimizer == nullptr) throw InvalidArgument("[model] expected an optimizer but got none");
  return optimizer;
}

TensorDescriptor input_of(const ModelOptions& options, const Block& blocks) {
  Shape shape{options.batch_size};
  shape.insert(shape.end(), options.input.begin(), options.input.end());
  for (const std::int64_t extent : shape) {
    if (extent >= 1 && !options.input.empty() && shape.size() <= kMaxTensorDimensions) continue;
    throw ShapeError("[model] expected a batch size and an input of 1 to " +
                     std::to_string(kMaxTensorDimensions - 1) +
                     " extents, all of at least 1, but got " + std::to_string(options.batch_size) +
                     " and " + to_string(options.input));
  }
  const bool is_index = blocks.kind() == Block::Kind::kIndices;
  return {shape, options.input_type.value_or(is_index ? DataType::kInt32 : DataType::kFloat32)};
}

// Classes without the axis of classes, or what the prediction has.
TensorDescriptor labels_of(const std::string& labels, LossType type,
                           const TensorDescriptor& prediction) {
  if (labels != "classes" && labels != "one_hot") {
    throw InvalidArgument("[model] expected labels of classes, one_hot but got '" + labels + "'");
  }
  if (type != LossType::kSoftmaxCrossEntropy || labels == "one_hot") {
    return {prediction.shape, prediction.data_type};
  }
  Shape shape = prediction.shape;
  if (shape.size() < 2) {
    throw ShapeError("[model] expected a prediction (N, classes, …) for softmax cross entropy " +
                     std::string("but got ") + to_string(shape));
  }
  shape.erase(shape.begin() + 1);
  return {shape, DataType::kInt32};
}

}  // namespace

OptimizerPtr sgd(float learning_rate, float momentum, bool nesterov) {
  return std::make_shared<SGD>(with_rate(learning_rate), momentum, nesterov);
}

OptimizerPtr adam(float learning_rate, AdamOptions options) {
  return std::make_shared<Adam>(with_rate(learning_rate), options);
}

OptimizerPtr adamw(float learning_rate, float weight_decay, AdamOptions options) {
  OptimizerDescriptor d = with_rate(learning_rate);
  d.regularization_type = RegularizationType::kL2;
  d.regularization_scale = weight_decay;
  return std::make_shared<AdamW>(d, options);
}

OptimizerPtr rmsprop(float learning_rate, RMSPropOptions options) {
  return std::make_shared<RMSProp>(with_rate(learning_rate), options);
}

std::shared_ptr<TrainingGraph> model(std::vector<Block> blocks, const ModelOptions& options) {
  if (blocks.empty()) throw InvalidArgument("[model] expected 1 or more blocks but got none");
  const std::shared_ptr<Loss> loss = loss_of(options);
  const OptimizerPtr optimizer = optimizer_of(options);
  const Block whole = sequential(std::move(blocks));
  const TensorPtr x = Tensor::create(input_of(options, whole));
  const auto graph = std::make_shared<Graph>();
  TensorPtr prediction = whole(graph, x);
  // The loss and `predict` take the last layer's first result.
  const std::vector<LayerPtr> layers = graph->layers();
  if (layers.empty() || graph->result_tensors(layers.back()).front() != prediction) {
    prediction = graph->reshape(prediction->descriptor().shape, prediction);
  }
  const TensorPtr y =
      Tensor::create(labels_of(options.labels, loss->descriptor().type, prediction->descriptor()));
  x->set_label("x");
  y->set_label("y");
  auto training = std::make_shared<TrainingGraph>(std::vector<GraphPtr>{graph}, loss, optimizer);
  training->add_inputs({{"x", x}}, {{"y", y}});
  training->compile(CompilationOptions::kNone, options.device);
  return training;
}

}  // namespace traingraph::nn
