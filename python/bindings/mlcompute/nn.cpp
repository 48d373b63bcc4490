// The short forms of traingraph::nn.
#include "bindings.h"
#include "classes/signature.h"
#include "convert/convert.h"
#include "convert/enums.h"
#include "convert/other_libraries.h"
#include "convert/release.h"
#include "mlcompute/nn_block.h"
#include "mlcompute/nn_initializers.h"
#include "mlcompute/nn_values.h"

namespace traingraph::python {
namespace {

using nn::Block;
using Count = std::int64_t;

constexpr const char* kBlocks =
    "Sequence[Block | MLCLayer | str | Callable[[MLCGraph, MLCTensor], MLCTensor]]";

// A function of Python's, called with the GIL wherever the core has let go of it.
Block of_callable(py::handle function) {
  const std::string text = printable(py::getattr(function, "__name__", py::repr(function)));
  return Block::of_function(text,
                            [text, shared = share(py::reinterpret_borrow<py::object>(function))](
                                const GraphPtr& graph, const TensorPtr& x) {
                              const HeldGil held;
                              const py::object result = shared_object(shared)(graph, x);
                              return convert<TensorPtr>(result, {text, "its result", "MLCTensor"});
                            });
}

Block to_block(py::handle value, const Where& where) {
  if (py::isinstance<Block>(value)) return py::cast<Block>(value);
  if (py::isinstance<Layer>(value)) return py::cast<LayerPtr>(value);
  if (PyUnicode_Check(value.ptr())) return to_text(value, where);
  // A function of this module that was not called is none of the caller's, and a module of
  // PyTorch's none of a graph and a tensor.
  const bool is_no_layer = PyType_Check(value.ptr()) || PyCFunction_Check(value.ptr()) ||
                           py::isinstance<ExecutableGraph>(value) || advice_on_other_library(value);
  if (is_no_layer || PyCallable_Check(value.ptr()) == 0) refuse(where, value);
  return of_callable(value);
}

std::vector<Block> blocks_of(const Arguments& given, const char* name = "layers") {
  const Where where = given.where(name);
  std::vector<Block> blocks;
  for (const py::object& item : to_items(given[name], where)) {
    blocks.push_back(to_block(item, where.of_item(blocks.size())));
  }
  return blocks;
}

nn::Size size_of(const Arguments& given, const char* name) {
  const auto pair = given.get<Pair>(name);
  return {pair.y, pair.x};
}

std::optional<nn::Size> optional_size(const Arguments& given, const char* name) {
  return given[name].is_none() ? std::nullopt : std::optional(size_of(given, name));
}

// A policy, or the rows and columns on both sides.
Padding padding_of(const Arguments& given) {
  const py::object value = given["padding"];
  if (PyUnicode_Check(value.ptr()) || py::isinstance(value, enum_class("MLCPaddingPolicy"))) {
    return to_padding(value, given.where("padding"));
  }
  return {PaddingPolicy::kUsePaddingSize, given.get<Pair>("padding")};
}

// One number, or several.
Shape shape_of(const Arguments& given, const char* name) {
  const py::object value = given[name];
  if (value.is_none()) return {};
  return to_sample(value, given.where(name));
}

std::string activation_of(const Arguments& given) {
  return given.optional<std::string>("activation").value_or("");
}

// --- blocks --------------------------------------------------------------------------------------

Block make_dense(const Arguments& given) {
  const nn::DenseOptions options{given.get<bool>("bias"), activation_of(given),
                                 initializer_of(given, "weights_init"),
                                 initializer_of(given, "bias_init")};
  const auto outputs = given.get<Count>("outputs");
  return given.form() == 0 ? nn::dense(outputs, options)
                           : nn::dense(given.get<Count>("inputs"), outputs, options);
}

nn::Conv2dOptions convolution_options(const Arguments& given) {
  nn::Conv2dOptions options;
  options.stride = size_of(given, "stride");
  options.dilation = size_of(given, "dilation");
  options.padding = padding_of(given);
  options.groups = given.get<Count>("groups");
  options.bias = given.get<bool>("bias");
  options.activation = activation_of(given);
  options.weights_init = initializer_of(given, "weights_init");
  options.bias_init = initializer_of(given, "bias_init");
  return options;
}

Block make_conv2d(const Arguments& given) {
  const auto outputs = given.get<Count>("outputs");
  const nn::Size kernel = size_of(given, "kernel");
  const nn::Conv2dOptions options = convolution_options(given);
  return given.form() == 0 ? nn::conv2d(outputs, kernel, options)
                           : nn::conv2d(given.get<Count>("inputs"), outputs, kernel, options);
}

Block make_conv2d_transpose(const Arguments& given) {
  const auto outputs = given.get<Count>("outputs");
  const nn::Size kernel = size_of(given, "kernel");
  const nn::Conv2dOptions options = convolution_options(given);
  return given.form() == 0
             ? nn::conv2d_transpose(outputs, kernel, options)
             : nn::conv2d_transpose(given.get<Count>("inputs"), outputs, kernel, options);
}

Block make_conv1d(const Arguments& given) {
  const auto outputs = given.get<Count>("outputs");
  const auto kernel = given.get<Count>("kernel");
  const nn::Conv2dOptions options = convolution_options(given);
  return given.form() == 0 ? nn::conv1d(outputs, kernel, options)
                           : nn::conv1d(given.get<Count>("inputs"), outputs, kernel, options);
}

Block make_batch_norm(const Arguments& given) {
  const nn::BatchNormOptions options{given.get<float>("momentum"), given.get<float>("epsilon")};
  return given.form() == 0 ? nn::batch_norm(options)
                           : nn::batch_norm(given.get<Count>("channels"), options);
}

nn::PoolOptions pool_options(const Arguments& given) {
  return {optional_size(given, "stride"), padding_of(given)};
}

void bind_weighted(py::module_& module) {
  const std::string init = std::string(", weights_init: ") + kInitializer +
                           " = None, bias_init: " + kInitializer + " = None";
  const std::string dense =
      "outputs: int, *, bias: bool = True, activation: str | None = None" + init;
  def_function(module, "dense", "Block", {dense, "inputs: int, " + dense},
               "MLCFullyConnectedLayer. Shapes: (…, C) to (…, outputs), or (N, C, 1, 1); C is "
               "inferred, and checked where inputs is given. Weights are He-uniform before ReLU, "
               "else uniform within 1 / sqrt(C); biases 0. Errors: "
               "ValueError, also for images that are not "
               "flattened.",
               make_dense);
  const std::string options =
      "groups: int = 1, bias: bool = True, activation: str | None = None" + init;
  const std::string conv2d =
      "outputs: int, kernel: int | Sequence[int], *, stride: int | Sequence[int] = 1, dilation: "
      "int | Sequence[int] = 1, padding: MLCPaddingPolicy | str | int | Sequence[int] = 'same', " +
      options;
  def_function(module, "conv2d", "Block", {conv2d, "inputs: int, " + conv2d},
               "MLCConvolutionLayer. Shapes: (N, C, H, W) to (N, outputs, P, Q); pairs are "
               "(height, width). Weights as of dense. Errors: ValueError.",
               make_conv2d);
  def_function(module, "conv2d_transpose", "Block", {conv2d, "inputs: int, " + conv2d},
               "MLCConvolutionLayer of TRANSPOSED. Shapes: (N, C, H, W) to (N, outputs, P, Q), "
               "times the stride with padding 'same'; otherwise as conv2d.",
               make_conv2d_transpose);
  const std::string conv1d =
      "outputs: int, kernel: int, *, stride: int = 1, dilation: int = 1, padding: MLCPaddingPolicy "
      "| str | int = 'same', " +
      options;
  def_function(module, "conv1d", "Block", {conv1d, "inputs: int, " + conv1d},
               "A convolution over the steps of sequences. Shapes: (N, T, C) to (N, S, outputs). "
               "Weights as of dense. Errors: ValueError.",
               make_conv1d);
}

void bind_images(py::module_& module) {
  const std::string batch_norm = "*, momentum: float = 0.9, epsilon: float = 1e-05";
  def_function(module, "batch_norm", "Block", {batch_norm, "channels: int, " + batch_norm},
               "MLCBatchNormalizationLayer over axis 1, with gamma 1 and beta 0. Shapes: (N, C, …) "
               "to the same. Errors: ValueError.",
               make_batch_norm);
  def_function(module, "layer_norm", "Block",
               {"shape: int | Sequence[int] | None = None, *, epsilon: float = 1e-05"},
               "MLCLayerNormalizationLayer over the last axis, of (N, C, H, W) over all but the "
               "first, or over those of shape; gamma 1 and beta 0. Errors: ValueError.",
               [](const Arguments& given) {
                 return nn::layer_norm(shape_of(given, "shape"), given.get<float>("epsilon"));
               });
  def_function(module, "group_norm", "Block", {"groups: int, *, epsilon: float = 1e-05"},
               "MLCGroupNormalizationLayer over axis 1, with gamma 1 and beta 0. Shapes: (N, C, …) "
               "to the same. Errors: ValueError.",
               [](const Arguments& given) {
                 return nn::group_norm(given.get<Count>("groups"), given.get<float>("epsilon"));
               });
  const std::string pool =
      "kernel: int | Sequence[int] | None = None, *, stride: int | Sequence[int] | None = None, "
      "padding: MLCPaddingPolicy | str | int | Sequence[int] = 'same'";
  def_function(module, "max_pool", "Block", {pool},
               "MLCPoolingLayer of MAX. The stride is the kernel's unless it is given; without a "
               "kernel the window is the image. Shapes: (N, C, H, W) to (N, C, P, Q).",
               [](const Arguments& given) {
                 return nn::max_pool(optional_size(given, "kernel"), pool_options(given));
               });
  def_function(module, "average_pool", "Block", {pool},
               "MLCPoolingLayer of AVERAGE; otherwise as max_pool.", [](const Arguments& given) {
                 return nn::average_pool(optional_size(given, "kernel"), pool_options(given));
               });
  def_getter(module, "flatten", "Block", "MLCReshapeLayer. Shapes: (N, …) to (N, C).",
             &nn::flatten);
  def_function(module, "reshape", "Block", {"shape: Sequence[int]"},
               "MLCReshapeLayer to this shape of a sample; one extent may be -1. Shapes: (N, …) to "
               "(N, *shape).",
               [](const Arguments& given) { return nn::reshape(given.get<Shape>("shape")); });
  def_function(module, "dropout", "Block", {"rate: float, *, seed: int = 0"},
               "MLCDropoutLayer. Shapes: any to the same.", [](const Arguments& given) {
                 return nn::dropout(given.get<float>("rate"), given.get<std::uint64_t>("seed"));
               });
}

// --- networks ------------------------------------------------------------------------------------

// One, or several.
std::vector<Block> trained_blocks(const Arguments& given) {
  const py::object value = given["train"];
  if (value.is_none()) return {};
  if (py::isinstance<Block>(value)) return {py::cast<Block>(value)};
  std::vector<Block> all = blocks_of(given, "train");
  if (all.empty()) throw InvalidArgument("[model] expected 1 or more blocks in train but got none");
  return all;
}

// What both kinds of models take.
template <class Options>
void read_training(Options& options, const Arguments& given) {
  const py::object loss = given["loss"];
  if constexpr (std::is_same_v<Options, nn::NetworkOptions>) {
    if (py::isinstance<nn::Value>(loss)) options.loss = py::cast<nn::Value>(loss);
  }
  if (py::isinstance<Layer>(loss)) {
    options.loss = given.get<LayerPtr>("loss");
  } else if (!py::isinstance<nn::Value>(loss) || given.form() == 0) {
    options.loss = given.get<std::string>("loss");
  }
  if (py::isinstance<Optimizer>(given["optimizer"])) {
    options.optimizer = given.get<OptimizerPtr>("optimizer");
  } else {
    options.optimizer = given.get<std::string>("optimizer");
  }
  options.labels = given.get<std::string>("labels");
  options.weights = given.get<bool>("weights");
  options.train = trained_blocks(given);
  options.batch_size = given.get<Count>("batch_size");
  options.device = given.get<Device>("device");
  options.any_batch_size = given.get<bool>("any_batch_size");
  options.distributed = given.optional<distributed::Communicator>("distributed");
  options.ranks = {.synchronized_batch_norm = given.get<bool>("synchronized_batch_norm"),
                   .shard_optimizer = given.get<bool>("shard_optimizer"),
                   .gradient_exchange = given.optional<DataType>("gradient_exchange")};
}

// One, or several.
std::vector<nn::Value> values_of(const Arguments& given, const char* name) {
  const Where where = given.where(name);
  if (py::isinstance<nn::Value>(given[name])) return {to_value(given[name], where)};
  std::vector<nn::Value> values;
  for (const py::object& item : to_items(given[name], where)) {
    values.push_back(to_value(item, where.of_item(values.size())));
  }
  return values;
}

std::shared_ptr<TrainingGraph> make_network(const Arguments& given) {
  nn::NetworkOptions options;
  options.inputs = values_of(given, "inputs");
  options.outputs = values_of(given, "outputs");
  read_training(options, given);
  const ReleasedGil released;
  return nn::model(options);
}

std::shared_ptr<TrainingGraph> make_model(const Arguments& given) {
  if (given.form() == 1) return make_network(given);
  std::vector<Block> blocks = blocks_of(given);
  nn::ModelOptions options;
  options.input = shape_of(given, "input");
  options.input_type = given.optional<DataType>("input_type");
  read_training(options, given);
  const ReleasedGil released;
  return nn::model(std::move(blocks), options);
}

py::object make_sequential(const Arguments& given) {
  const Block block = nn::sequential(blocks_of(given));
  if (given.form() == 0) return py::cast(block);
  return py::cast(called_in_graph(block, given));
}

Block make_residual(const Arguments& given) {
  std::vector<Block> shortcut;
  if (!given["shortcut"].is_none()) shortcut = blocks_of(given, "shortcut");
  return nn::residual(blocks_of(given), std::move(shortcut));
}

void bind_networks(py::module_& module) {
  const std::string layers = std::string("layers: ") + kBlocks;
  def_function(module, "sequential", "Block",
               {layers, "graph: MLCGraph, x: MLCTensor, " + layers + " -> MLCTensor"},
               "One after another: a block, or in a graph the last result. Layers are blocks of "
               "traingraph.nn, layers of ML Compute, activations by name, and functions of a graph "
               "and a tensor.",
               make_sequential);
  def_function(module, "shared", "Block", {layers},
               "One after another, with the same weights wherever the block is called, also in "
               "several models. Errors: ValueError for a source that needs weights of other shapes "
               "than the first one did.",
               [](const Arguments& given) { return nn::shared(blocks_of(given)); });
  def_function(module, "residual", "Block",
               {layers + ", *, shortcut: " + kBlocks + " | None = None"},
               "x + layers(x), or shortcut(x) + layers(x) where the shapes differ. Errors: "
               "ValueError for a result of another shape than what stands beside it.",
               make_residual);
  const std::string training =
      "loss: MLCLossLayer | str = 'softmax_cross_entropy', optimizer: MLCOptimizer | str = 'adam', "
      "labels: str = 'classes', weights: bool = False, train: Block | Sequence[Block] | None = "
      "None, batch_size: int = 32, device: MLCDevice | str = 'any', any_batch_size: bool = False, "
      "distributed: Communicator | None = None, synchronized_batch_norm: bool = False, "
      "shard_optimizer: bool = False, gradient_exchange: MLCDataType | DTypeLike | None = None";
  def_function(
      module, "model", "MLCTrainingGraph",
      {layers +
           ", *, input: int | Sequence[int], input_type: MLCDataType | DTypeLike | None = None, " +
           training,
       "*, inputs: Value | Sequence[Value], outputs: Value | Sequence[Value], loss: Value | "
       "MLCLossLayer | str = 'softmax_cross_entropy'" +
           training.substr(training.find(", optimizer"))},
      "A graph of these layers with input 'x' and labels 'y', compiled; or of what the outputs are "
      "made of. Shapes: x is (batch_size, *input); y is the prediction's, or for softmax cross "
      "entropy its classes, (batch_size), unless labels is 'one_hot'; with weights 'w' has one "
      "number for each value of the loss. any_batch_size: "
      "MLCGraphCompilationOptions.ANY_BATCH_SIZE. distributed and what follows it: as in compile. "
      "A loss that is a Value is trained on by the mean of its elements; nn.Input values that it "
      "alone reads are labels. The first output is the prediction, others are declared as "
      "'output1', 'output2', …. train are blocks of nn.shared whose weights alone the model "
      "changes. Types: input_type None is int32 before an embedding, else float32; classes are "
      "int32. Errors: ValueError that lists the names of losses and optimizers, or for a block in "
      "train that is not shared or not called.",
      make_model);
}

}  // namespace

void bind_nn(py::module_& module) {
  bind_nn_block(module);
  bind_nn_values(module);
  bind_weighted(module);
  bind_images(module);
  bind_nn_sequences(module);
  bind_nn_optimizers(module);
  bind_networks(module);
}

}  // namespace traingraph::python
