// `nn::model`, which makes a compiled training graph of blocks, and the short forms of the
// optimizers.
#include <algorithm>

#include <traingraph/data_movement.h>
#include <traingraph/loss.h>

#include "nn/expression.h"
#include "nn/layer_block.h"
#include "nn/loss_source.h"
#include "nn/losses.h"

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

struct LabelsRow {
  const char* name;
  bool is_one_hot;
};
constexpr LabelsRow kLabels[] = {{"classes", false}, {"one_hot", true}};

// Those of a descriptor may be, as in ML Compute.
void expect_not_negative(const char* subject, const char* what, float value) {
  if (!(value < 0)) return;
  throw InvalidArgument(std::string("[") + subject + "] expected " + what +
                        " to be 0 or more but got " + number_text(static_cast<double>(value)));
}

OptimizerDescriptor with_rate(float learning_rate, const char* subject) {
  expect_not_negative(subject, "learning_rate", learning_rate);
  OptimizerDescriptor d;
  d.learning_rate = learning_rate;
  return d;
}

// Null of an expression.
std::shared_ptr<Loss> loss_of(const NetworkOptions& options) {
  if (std::holds_alternative<Value>(options.loss)) return nullptr;
  if (const auto* name = std::get_if<std::string>(&options.loss)) {
    LossDescriptor d;
    d.type = loss_named(*name, "model");
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

OptimizerPtr optimizer_of(const NetworkOptions& options) {
  if (const auto* name = std::get_if<std::string>(&options.optimizer)) {
    return row_named(kOptimizers, "model", "an optimizer", *name).make();
  }
  OptimizerPtr optimizer = std::get<OptimizerPtr>(options.optimizer);
  if (optimizer == nullptr) throw InvalidArgument("[model] expected an optimizer but got none");
  return optimizer;
}

TensorPtr input_of(const Expression::Input& input, std::int64_t batch_size) {
  Shape shape{batch_size};
  shape.insert(shape.end(), input.shape.begin(), input.shape.end());
  for (const std::int64_t extent : shape) {
    if (extent >= 1 && !input.shape.empty() && shape.size() <= kMaxTensorDimensions) continue;
    throw ShapeError("[model] expected a batch size and an input of 1 to " +
                     std::to_string(kMaxTensorDimensions - 1) +
                     " extents, all of at least 1, but got " + std::to_string(batch_size) +
                     " and " + to_string(input.shape) +
                     (input.shape.size() > 1 && input.shape.front() == -1
                          ? "; leave out -1, the batch, which batch_size has"
                          : ""));
  }
  return Tensor::create({shape, input.options.data_type});
}

// Classes without the axis of classes, or what the prediction has.
TensorDescriptor labels_of(const std::string& labels, LossType type,
                           const TensorDescriptor& prediction) {
  const bool is_one_hot = row_named(kLabels, "model", "labels", labels).is_one_hot;
  if (type != LossType::kSoftmaxCrossEntropy || is_one_hot) {
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

// Of a softmax or cosine one value for each position, of others one for each element.
Shape weights_of(LossType type, const Shape& prediction) {
  Shape shape = prediction;
  const bool over_classes = type == LossType::kSoftmaxCrossEntropy ||
                            type == LossType::kCategoricalCrossEntropy ||
                            type == LossType::kCosineDistance;
  if (over_classes && shape.size() > 1) shape.erase(shape.begin() + 1);
  return shape;
}

class Network {
 public:
  explicit Network(const NetworkOptions& options)
      : options_(options),
        loss_(loss_of(options)),
        optimizer_(optimizer_of(options)),
        drawing_{.graph = std::make_shared<Graph>(), .batch_size = options.batch_size} {
    if (options.outputs.empty()) {
      throw InvalidArgument("[model] expected 1 or more outputs but got none");
    }
    if (options.weights && loss_ == nullptr) {
      throw InvalidArgument(
          "[model] expected no weights of a loss that is an expression; multiply by an input");
    }
    if (loss_ == nullptr && row_named(kLabels, "model", "labels", options.labels).is_one_hot) {
      throw InvalidArgument(
          "[model] expected no labels='one_hot' of a loss that is an expression; its labels are "
          "what "
          "input() declares, of floats unless it says otherwise");
    }
  }

  std::shared_ptr<TrainingGraph> make() {
    SharedLayers::Trial trial;
    declare_inputs();
    draw(in_order(options_.outputs), drawing_, drawn_);
    if (const auto* expression = std::get_if<Value>(&options_.loss)) add_loss(*expression);
    check_read();
    Graph& graph = *drawing_.graph;
    TensorPtr prediction = drawn_.at(options_.outputs.front().expression().get());
    if (loss_ != nullptr) check_prediction(prediction);
    // The loss and `predict` take the last layer's first result.
    const std::vector<LayerPtr> layers = graph.layers();
    if (layers.empty() || graph.result_tensors(layers.back()).front() != prediction) {
      prediction = graph.reshape(prediction->descriptor().shape, prediction);
    }
    if (loss_ != nullptr) declare_labels(prediction->descriptor());
    auto training =
        std::make_shared<TrainingGraph>(std::vector<GraphPtr>{drawing_.graph}, loss_, optimizer_);
    training->add_inputs(inputs_, labels_, weights_);
    if (!drawing_.stopped.empty()) training->stop_gradient(drawing_.stopped);
    if (!options_.train.empty()) training->train_only(trained_layers());
    declare_outputs(*training);
    training->compile(
        options_.any_batch_size ? CompilationOptions::kAnyBatchSize : CompilationOptions::kNone,
        options_.device, {}, {}, Precision::kFloat32, std::nullopt, options_.distributed,
        options_.ranks);
    check_trained(*training);
    check_changes(*training);
    trial.keep();
    return training;
  }

 private:
  void expect_new(const std::string& name, const std::string& why) const {
    const auto has_it = [&](const auto& entry) { return entry.first == name; };
    if (std::ranges::none_of(inputs_, has_it) && std::ranges::none_of(labels_, has_it)) return;
    throw InvalidArgument("[model] expected inputs and labels of different names but got '" + name +
                          "' twice" + why);
  }

  void declare(NamedTensors& group, const Expression& input, const std::string& usual) {
    const TensorPtr tensor = input_of(*input.input, options_.batch_size);
    const std::string& own = input.input->options.name;
    const std::string& name = own.empty() ? usual : own;
    expect_new(name, "");
    tensor->set_label(name);
    if (input.input->options.data_type == DataType::kFloat64) {
      drawing_.data_type = DataType::kFloat64;
    }
    group.emplace_back(name, tensor);
    drawn_.emplace(&input, tensor);
  }

  void declare_inputs() {
    for (const Value& value : options_.inputs) {
      const Expression& input = *value.expression();
      if (!input.input) {
        throw InvalidArgument("[model] expected inputs made by input() but got " + input.text);
      }
      if (drawn_.contains(&input)) {
        throw InvalidArgument("[model] expected each input once but got " + input.text + " twice");
      }
      const bool is_one = options_.inputs.size() == 1;
      declare(inputs_, input, is_one ? "x" : "x" + std::to_string(inputs_.size()));
    }
  }

  void check_read() const {
    std::vector<Value> ends = options_.outputs;
    if (const auto* loss = std::get_if<Value>(&options_.loss)) ends.push_back(*loss);
    const std::vector<const Expression*> read = in_order(ends);
    for (const Value& input : options_.inputs) {
      if (std::ranges::find(read, input.expression().get()) != read.end()) continue;
      throw InvalidArgument("[model] expected inputs that an output or the loss reads but got " +
                            input.text() + ", which nothing reads; leave it out");
    }
  }

  // A loss layer takes what it is given, as in ML Compute.
  void check_prediction(const TensorPtr& prediction) const {
    const LossType type = loss_->descriptor().type;
    const bool are_classes =
        !is_floating_point(labels_of(options_.labels, type, prediction->descriptor()).data_type);
    expect_classes_first(*drawing_.graph, prediction, type, are_classes, "model");
    expect_several_classes(prediction, type, "model");
    if (std::holds_alternative<LayerPtr>(options_.loss)) return;
    expect_logits(*drawing_.graph, prediction, type, "model");
  }

  void declare_labels(const TensorDescriptor& prediction) {
    const LossType type = loss_->descriptor().type;
    expect_new("y", ", which the labels of a named loss are; give the input another name");
    const TensorPtr y = Tensor::create(labels_of(options_.labels, type, prediction));
    y->set_label("y");
    labels_.emplace_back("y", y);
    if (!options_.weights) return;
    expect_new("w", ", which the weights of the loss are; give the input another name");
    weights_.emplace_back(
        "w", Tensor::create({weights_of(type, prediction.shape), prediction.data_type}));
    weights_.back().second->set_label("w");
  }

  void add_loss(const Value& value) {
    const std::vector<const Expression*> order = in_order({value});
    for (const Expression* one : order) {
      if (one->input && !drawn_.contains(one)) declare(labels_, *one, "y");
    }
    draw(order, drawing_, drawn_);
    drawing_.graph->node(std::make_shared<ExpressionLoss>(), drawn_.at(value.expression().get()));
  }

  std::vector<LayerPtr> trained_layers() const {
    const std::vector<LayerPtr> own = drawing_.graph->layers();
    std::vector<LayerPtr> result;
    for (const Block& block : options_.train) {
      if (block.shared_layers() == nullptr) {
        throw InvalidArgument("[model] expected blocks of shared() in train but got " +
                              block.text());
      }
      const std::vector<LayerPtr> layers = block.shared_layers()->layers();
      if (layers.empty() || std::ranges::find(own, layers.front()) == own.end()) {
        throw InvalidArgument(
            "[model] expected blocks in train that have weights and that the outputs or the loss "
            "call but got " +
            block.text());
      }
      result.insert(result.end(), layers.begin(), layers.end());
    }
    return result;
  }

  // A network without weights, or with frozen ones alone, is for predict and evaluate.
  void check_changes(const TrainingGraph& training) const {
    bool has_some = false;
    for (const LayerPtr& layer : drawing_.graph->layers()) {
      if (training.computes_gradient(layer)) return;
      for (const TensorParameter* parameter : layer->parameters()) {
        has_some = has_some || parameter->is_updatable;
      }
    }
    if (!has_some) return;
    throw InvalidArgument(
        "[model] expected a loss whose gradient reaches weights but it reaches none: the loss has "
        "to read what they make, not through stop_gradient or comparisons alone");
  }

  void check_trained(const TrainingGraph& training) const {
    for (const Block& block : options_.train) {
      const auto reaches = [&](const LayerPtr& layer) {
        const auto parameters = layer->parameters();
        return training.computes_gradient(layer) ||
               std::ranges::none_of(parameters, [](auto p) { return bool(p->is_updatable); });
      };
      if (std::ranges::any_of(block.shared_layers()->layers(), reaches)) continue;
      throw InvalidArgument(
          "[model] expected blocks in train that a gradient of the loss reaches but got " +
          block.text());
    }
  }

  void declare_outputs(TrainingGraph& training) const {
    NamedTensors outputs;
    for (std::size_t k = 1; k < options_.outputs.size(); ++k) {
      outputs.emplace_back("output" + std::to_string(k),
                           drawn_.at(options_.outputs[k].expression().get()));
    }
    if (!outputs.empty()) training.add_outputs(outputs);
  }

  const NetworkOptions& options_;
  const std::shared_ptr<Loss> loss_;
  const OptimizerPtr optimizer_;
  Drawing drawing_;
  Drawn drawn_;
  NamedTensors inputs_, labels_, weights_;
};

}  // namespace

LossType loss_named(const std::string& name, const std::string& subject) {
  return row_named(kLosses, subject, "a loss", name).type;
}

OptimizerPtr sgd(float learning_rate, float momentum, bool nesterov) {
  return std::make_shared<SGD>(with_rate(learning_rate, "sgd"), momentum, nesterov);
}

OptimizerPtr adam(float learning_rate, AdamOptions options) {
  return std::make_shared<Adam>(with_rate(learning_rate, "adam"), options);
}

OptimizerPtr adamw(float learning_rate, float weight_decay, AdamOptions options) {
  OptimizerDescriptor d = with_rate(learning_rate, "adamw");
  expect_not_negative("adamw", "weight_decay", weight_decay);
  d.regularization_type = RegularizationType::kL2;
  d.regularization_scale = weight_decay;
  return std::make_shared<AdamW>(d, options);
}

OptimizerPtr rmsprop(float learning_rate, RMSPropOptions options) {
  return std::make_shared<RMSProp>(with_rate(learning_rate, "rmsprop"), options);
}

std::shared_ptr<TrainingGraph> model(const NetworkOptions& options) {
  return Network(options).make();
}

std::shared_ptr<TrainingGraph> model(std::vector<Block> blocks, const ModelOptions& options) {
  if (blocks.empty()) throw InvalidArgument("[model] expected 1 or more blocks but got none");
  const Block whole = sequential(std::move(blocks));
  const bool is_index = whole.kind() == Block::Kind::kIndices;
  const DataType type =
      options.input_type.value_or(is_index ? DataType::kInt32 : DataType::kFloat32);
  input_of({options.input, {}}, options.batch_size);  // refuses both by the names they have here
  const Value x = input(options.input, {.data_type = type});
  NetworkOptions network{.inputs = {x},
                         .outputs = {whole(x)},
                         .optimizer = options.optimizer,
                         .labels = options.labels,
                         .weights = options.weights,
                         .train = options.train,
                         .batch_size = options.batch_size,
                         .device = options.device,
                         .any_batch_size = options.any_batch_size,
                         .distributed = options.distributed,
                         .ranks = options.ranks};
  std::visit([&](const auto& loss) { network.loss = loss; }, options.loss);
  return model(network);
}

}  // namespace traingraph::nn
