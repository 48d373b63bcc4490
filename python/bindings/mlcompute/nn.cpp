// The short forms of traingraph::nn.
#include "bindings.h"
#include "classes/described_class.h"
#include "classes/signature.h"
#include "convert/convert.h"
#include "convert/enums.h"
#include "convert/release.h"

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
  // A function of this module that was not called is none of the caller's.
  const bool is_own = PyType_Check(value.ptr()) || PyCFunction_Check(value.ptr());
  if (is_own || PyCallable_Check(value.ptr()) == 0) refuse(where, value);
  return of_callable(value);
}

std::vector<Block> blocks_of(const Arguments& given) {
  const Where where = given.where("layers");
  std::vector<Block> blocks;
  for (const py::object& item : to_items(given["layers"], where)) {
    blocks.push_back(to_block(item, where.of_item(blocks.size())));
  }
  return blocks;
}

nn::Size size_of(const Arguments& given, const char* name) {
  const auto pair = given.get<Pair>(name);
  return {pair.y, pair.x};
}

std::optional<nn::Size> optional_size(const Arguments& given, const char* name) {
  if (given[name].is_none()) return std::nullopt;
  return size_of(given, name);
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
  if (PyIndex_Check(value.ptr())) return {to_integer(value, given.where(name))};
  return given.get<Shape>(name);
}

std::string activation_of(const Arguments& given) {
  return given.optional<std::string>("activation").value_or("");
}

// --- blocks --------------------------------------------------------------------------------------

Block make_dense(const Arguments& given) {
  const nn::DenseOptions options{given.get<bool>("bias"), activation_of(given)};
  const auto outputs = given.get<Count>("outputs");
  return given.form() == 0 ? nn::dense(outputs, options)
                           : nn::dense(given.get<Count>("inputs"), outputs, options);
}

Block make_conv2d(const Arguments& given) {
  nn::Conv2dOptions options;
  options.stride = size_of(given, "stride");
  options.dilation = size_of(given, "dilation");
  options.padding = padding_of(given);
  options.groups = given.get<Count>("groups");
  options.bias = given.get<bool>("bias");
  options.activation = activation_of(given);
  const auto outputs = given.get<Count>("outputs");
  const nn::Size kernel = size_of(given, "kernel");
  return given.form() == 0 ? nn::conv2d(outputs, kernel, options)
                           : nn::conv2d(given.get<Count>("inputs"), outputs, kernel, options);
}

Block make_batch_norm(const Arguments& given) {
  const nn::BatchNormOptions options{given.get<float>("momentum"), given.get<float>("epsilon")};
  return given.form() == 0 ? nn::batch_norm(options)
                           : nn::batch_norm(given.get<Count>("channels"), options);
}

nn::PoolOptions pool_options(const Arguments& given) {
  return {optional_size(given, "stride"), padding_of(given)};
}

Block make_lstm(const Arguments& given) {
  nn::LstmOptions options;
  options.layers = given.get<Count>("layers");
  options.bidirectional = given.get<bool>("bidirectional");
  options.dropout = given.get<float>("dropout");
  options.returns_sequences = given.get<bool>("returns_sequences");
  const auto hidden = given.get<Count>("hidden");
  return given.form() == 0 ? nn::lstm(hidden, options)
                           : nn::lstm(given.get<Count>("inputs"), hidden, options);
}

Block make_attention(const Arguments& given) {
  const nn::AttentionOptions options{given.get<float>("dropout"), given.get<bool>("bias")};
  const auto heads = given.get<Count>("heads");
  return given.form() == 0 ? nn::attention(heads, options)
                           : nn::attention(given.get<Count>("inputs"), heads, options);
}

void bind_weighted(py::module_& module) {
  const std::string dense = "outputs: int, *, bias: bool = True, activation: str | None = None";
  def_function(module, "dense", "Block", {dense, "inputs: int, " + dense},
               "MLCFullyConnectedLayer. Shapes: (…, C) to (…, outputs), or (N, C, 1, 1); C is "
               "inferred, and checked where inputs is given. Weights are He-uniform before ReLU, "
               "else uniform within 1 / sqrt(C); biases 0. Errors: "
               "ValueError, also for images that are not "
               "flattened.",
               make_dense);
  const std::string conv2d =
      "outputs: int, kernel: int | Sequence[int], *, stride: int | Sequence[int] = 1, dilation: "
      "int "
      "| Sequence[int] = 1, padding: MLCPaddingPolicy | str | int | Sequence[int] = 'same', "
      "groups: "
      "int = 1, bias: bool = True, activation: str | None = None";
  def_function(module, "conv2d", "Block", {conv2d, "inputs: int, " + conv2d},
               "MLCConvolutionLayer. Shapes: (N, C, H, W) to (N, outputs, P, Q); pairs are "
               "(height, width). Weights as of dense. Errors: ValueError.",
               make_conv2d);
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

void bind_sequences(py::module_& module) {
  const std::string lstm =
      "hidden: int, *, layers: int = 1, bidirectional: bool = False, dropout: float = 0.0, "
      "returns_sequences: bool = False";
  def_function(module, "lstm", "Block", {lstm, "inputs: int, " + lstm},
               "MLCLSTMLayer with Glorot-uniform weights and biases 0, of forget gates 1. Shapes: "
               "(N, T, C) to the last step (N, features), or to (N, T, features) with "
               "returns_sequences. Errors: ValueError.",
               make_lstm);
  def_function(module, "embedding", "Block",
               {"count: int, dimension: int, *, padding_index: int | None = None"},
               "MLCEmbeddingLayer over a table of normal numbers. Shapes: indices (…) to "
               "(…, dimension). Errors: ValueError.",
               [](const Arguments& given) {
                 return nn::embedding(given.get<Count>("count"), given.get<Count>("dimension"),
                                      given.optional<Count>("padding_index"));
               });
  const std::string attention = "heads: int, *, dropout: float = 0.0, bias: bool = True";
  def_function(module, "attention", "Block", {attention, "inputs: int, " + attention},
               "MLCMultiheadAttentionLayer whose source is query, key and value. Shapes: (N, T, C) "
               "to the same. Errors: ValueError.",
               make_attention);
  def_function(module, "activation", "Block",
               {"name: str, a: float | None = None, b: float | None = None"},
               "MLCActivationLayer by name, with the descriptor's a and b; or MLCSoftmaxLayer, "
               "'softmax' and 'log_softmax', over the last axis, of (N, C, H, W) over C. Shapes: "
               "any to the same. Errors: ValueError that lists the names.",
               [](const Arguments& given) {
                 return nn::activation(given.get<std::string>("name"), given.optional<float>("a"),
                                       given.optional<float>("b"));
               });
}

// --- optimizers ----------------------------------------------------------------------------------

AdamOptions adam_options(const Arguments& given) {
  AdamOptions options;
  options.beta1 = given.get<float>("beta1");
  options.beta2 = given.get<float>("beta2");
  options.epsilon = given.get<float>("epsilon");
  return options;
}

void bind_nn_optimizers(py::module_& module) {
  const std::string adam = "beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-08";
  def_function(module, "sgd", "MLCSGDOptimizer",
               {"learning_rate: float = 0.01, *, momentum: float = 0.0, nesterov: bool = False"},
               "MLCSGDOptimizer.", [](const Arguments& given) {
                 return nn::sgd(given.get<float>("learning_rate"), given.get<float>("momentum"),
                                given.get<bool>("nesterov"));
               });
  def_function(module, "adam", "MLCAdamOptimizer", {"learning_rate: float = 0.001, *, " + adam},
               "MLCAdamOptimizer.", [](const Arguments& given) {
                 return nn::adam(given.get<float>("learning_rate"), adam_options(given));
               });
  def_function(module, "adamw", "MLCAdamWOptimizer",
               {"learning_rate: float = 0.001, *, weight_decay: float = 0.01, " + adam},
               "MLCAdamWOptimizer.", [](const Arguments& given) {
                 return nn::adamw(given.get<float>("learning_rate"),
                                  given.get<float>("weight_decay"), adam_options(given));
               });
  def_function(module, "rmsprop", "MLCRMSPropOptimizer",
               {"learning_rate: float = 0.001, *, momentum: float = 0.0, alpha: float = 0.99, "
                "epsilon: float = 1e-08, centered: bool = False"},
               "MLCRMSPropOptimizer.", [](const Arguments& given) {
                 RMSPropOptions options;
                 options.momentum = given.get<float>("momentum");
                 options.alpha = given.get<float>("alpha");
                 options.epsilon = given.get<float>("epsilon");
                 options.is_centered = given.get<bool>("centered");
                 return nn::rmsprop(given.get<float>("learning_rate"), options);
               });
}

// --- networks ------------------------------------------------------------------------------------

std::shared_ptr<TrainingGraph> make_model(const Arguments& given) {
  std::vector<Block> blocks = blocks_of(given);
  nn::ModelOptions options;
  options.input = shape_of(given, "input");
  options.input_type = given.optional<DataType>("input_type");
  if (py::isinstance<Layer>(given["loss"])) {
    options.loss = given.get<LayerPtr>("loss");
  } else {
    options.loss = given.get<std::string>("loss");
  }
  if (py::isinstance<Optimizer>(given["optimizer"])) {
    options.optimizer = given.get<OptimizerPtr>("optimizer");
  } else {
    options.optimizer = given.get<std::string>("optimizer");
  }
  options.labels = given.get<std::string>("labels");
  options.batch_size = given.get<Count>("batch_size");
  options.device = given.get<Device>("device");
  const ReleasedGil released;
  return nn::model(std::move(blocks), options);
}

py::object make_sequential(const Arguments& given) {
  const Block block = nn::sequential(blocks_of(given));
  if (given.form() == 0) return py::cast(block);
  const auto graph = given.get<GraphPtr>("graph");
  return py::cast(block(graph, given.get<TensorPtr>("x")));
}

void bind_networks(py::module_& module) {
  const std::string layers = std::string("layers: ") + kBlocks;
  def_function(module, "sequential", "Block",
               {layers, "graph: MLCGraph, x: MLCTensor, " + layers + " -> MLCTensor"},
               "One after another: a block, or in a graph the last result. Layers are blocks of "
               "traingraph.nn, layers of ML Compute, activations by name, and functions of a graph "
               "and a tensor.",
               make_sequential);
  def_function(
      module, "model", "MLCTrainingGraph",
      {layers +
       ", *, input: int | Sequence[int], input_type: MLCDataType | DTypeLike | None = "
       "None, loss: MLCLossLayer | str = 'softmax_cross_entropy', optimizer: MLCOptimizer "
       "| str = 'adam', labels: str = 'classes', batch_size: int = 32, device: MLCDevice | "
       "str = 'any'"},
      "A graph of these layers with input 'x' and labels 'y', compiled. Shapes: x is (batch_size, "
      "*input); y is the prediction's, or for softmax cross entropy its classes, (batch_size), "
      "unless labels is 'one_hot'. Types: input_type None is int32 before an embedding, else "
      "float32; classes are int32. Errors: ValueError that lists the names of losses and "
      "optimizers.",
      make_model);
}

}  // namespace

void bind_nn(py::module_& module) {
  bind_described(module, Block::class_description(), ownership<void>());
  bind_weighted(module);
  bind_images(module);
  bind_sequences(module);
  bind_nn_optimizers(module);
  bind_networks(module);
}

}  // namespace traingraph::python
