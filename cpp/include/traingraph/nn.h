// Short forms of the classes, by the names that Keras and PyTorch have for them:
//
//   auto model = nn::model({nn::flatten(), nn::dense(64), "relu", nn::dense(10)},
//                          {.input = {1, 8, 8}, .optimizer = nn::adam(1e-3f)});
//
// Each function makes objects of the classes and nothing else.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <traingraph/class_description.h>
#include <traingraph/device.h>
#include <traingraph/export.h>
#include <traingraph/graph.h>
#include <traingraph/layer.h>
#include <traingraph/nn/initializer.h>
#include <traingraph/nn/value.h>
#include <traingraph/optimizer.h>
#include <traingraph/shared_layers.h>

namespace traingraph::nn {

// Given a graph and a tensor it makes a layer for that tensor's shape, adds it and returns the
// result. It may be called again, and makes another layer then, unless it is shared().
class TRAINGRAPH_API Block {
 public:
  // What a block in front of this one has to know of it.
  enum class Kind {
    kOther,
    kRectifier,   // ReLU: weights before it are He's
    kNormalizer,  // whatever the weights before it, its result has the same size
    kThrough,     // weights before it are for what comes behind it
    kIndices,     // reads whole numbers
  };
  using Function = std::function<TensorPtr(const GraphPtr& graph, const TensorPtr& x)>;
  // `before_rectifier`: whether a ReLU reads the result.
  using Make =
      std::function<TensorPtr(const GraphPtr& graph, const TensorPtr& x, bool before_rectifier)>;

  Block(std::string text, Make make, Kind kind = Kind::kOther);
  // An activation by its name.
  Block(const std::string& activation);
  Block(const char* activation);
  // A layer as it is.
  template <std::derived_from<Layer> L>
  Block(std::shared_ptr<L> layer) : Block(of_layer(std::move(layer))) {}
  // Any function of a graph and a tensor.
  template <class F>
    requires std::is_invocable_r_v<TensorPtr, const F&, const GraphPtr&, const TensorPtr&> &&
             (!std::same_as<F, Block>)
  Block(F function) : Block(of_function("function", std::move(function))) {}
  static Block of_function(std::string text, Function function);
  // One that makes something of the lengths of sequences, which are null where a call gives none.
  using MakeOfSequences =
      std::function<TensorPtr(const GraphPtr& graph, const TensorPtr& x, const TensorPtr& lengths)>;
  static Block of_sequences(std::string text, MakeOfSequences make);

  // Errors name the block and the shape that it was given.
  TensorPtr operator()(const GraphPtr& graph, const TensorPtr& x,
                       bool before_rectifier = false) const;
  // Over sequences (N, T, C) of these lengths: N numbers of int32 from 0 to T. Raises
  // InvalidArgument for a block without use for them; attention and lstm have one.
  TensorPtr operator()(const GraphPtr& graph, const TensorPtr& x, const TensorPtr& lengths) const;
  // In a network of values.
  Value operator()(const Value& x) const;
  Value operator()(const Value& x, const Value& lengths) const;
  // "dense(128)"
  const std::string& text() const { return text_; }
  Kind kind() const { return kind_; }
  // Of shared(); null of others.
  const std::shared_ptr<SharedLayers>& shared_layers() const { return shared_layers_; }
  static const ClassDescription& class_description();

 private:
  static Block of_layer(LayerPtr layer);
  void expect_call(const GraphPtr& graph, const TensorPtr& x) const;
  void expect_sequences() const;
  friend Block shared(std::vector<Block> blocks);

  std::string text_;
  std::shared_ptr<const Make> make_;  // shared: a block in a block in a block is copied at once
  std::shared_ptr<const MakeOfSequences> make_of_sequences_;  // null of others
  Kind kind_;
  std::shared_ptr<SharedLayers> shared_layers_;
};

// One after another.
TRAINGRAPH_API Block sequential(std::vector<Block> blocks);
// The same, whose layers have the same weights wherever it is called, also in several models.
TRAINGRAPH_API Block shared(std::vector<Block> blocks);
// x + blocks(x), or shortcut(x) + blocks(x) where shapes differ.
TRAINGRAPH_API Block residual(std::vector<Block> blocks, std::vector<Block> shortcut = {});

// A height and a width, or one number for both.
struct Size {
  Size(int both) : y(both), x(both) {}
  Size(std::int64_t both) : y(both), x(both) {}
  Size(std::int64_t height, std::int64_t width) : y(height), x(width) {}
  std::int64_t y, x;
};

struct DenseOptions {
  bool bias = true;
  std::string activation = {};  // a name; empty: none
  Initializer weights_init = {};
  Initializer bias_init = {};
};
// x Wᵀ + b on the last axis, or of (N, C, 1, 1). Weights are He-uniform before ReLU, also by way of
// pooling, dropout and reshapes; else uniform within ±1 / sqrt(inputs of an output). Biases are 0.
TRAINGRAPH_API Block dense(std::int64_t outputs, DenseOptions options = {});
// Here and below: what comes first in the longer form has to be the source's.
TRAINGRAPH_API Block dense(std::int64_t inputs, std::int64_t outputs, DenseOptions options = {});

struct Conv2dOptions {
  Size stride = 1;
  Size dilation = 1;
  Padding padding = {};  // same
  std::int64_t groups = 1;
  bool bias = true;
  std::string activation = {};
  Initializer weights_init = {};
  Initializer bias_init = {};
};
// Over images (N, C, H, W); weights as of dense.
TRAINGRAPH_API Block conv2d(std::int64_t outputs, Size kernel, Conv2dOptions options = {});
TRAINGRAPH_API Block conv2d(std::int64_t inputs, std::int64_t outputs, Size kernel,
                            Conv2dOptions options = {});

// To (N, outputs, P, Q), P and Q as of the image whose conv2d() has the source's.
TRAINGRAPH_API Block conv2d_transpose(std::int64_t outputs, Size kernel,
                                      Conv2dOptions options = {});
TRAINGRAPH_API Block conv2d_transpose(std::int64_t inputs, std::int64_t outputs, Size kernel,
                                      Conv2dOptions options = {});
// Over the steps of sequences (N, T, C), by conv2d of one row; of pairs the widths count.
TRAINGRAPH_API Block conv1d(std::int64_t outputs, std::int64_t kernel, Conv2dOptions options = {});
TRAINGRAPH_API Block conv1d(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel,
                            Conv2dOptions options = {});

struct BatchNormOptions {
  float momentum = 0.9f;
  float epsilon = 1e-5f;
};
// Over axis 1, with gamma 1 and beta 0.
TRAINGRAPH_API Block batch_norm(BatchNormOptions options = {});
TRAINGRAPH_API Block batch_norm(std::int64_t channels, BatchNormOptions options = {});
// Over the last axis, of images (N, C, H, W) over all but the first; gamma 1 and beta 0.
TRAINGRAPH_API Block layer_norm(Shape shape = {}, float epsilon = 1e-5f);

// Over groups of channels of (N, C, …); gamma 1 and beta 0.
TRAINGRAPH_API Block group_norm(std::int64_t groups, float epsilon = 1e-5f);

struct PoolOptions {
  std::optional<Size> stride = {};  // none: the kernel's
  Padding padding = {};             // same
};
// Without a kernel over the whole image, to (N, C, 1, 1).
TRAINGRAPH_API Block max_pool(std::optional<Size> kernel = {}, PoolOptions options = {});
TRAINGRAPH_API Block average_pool(std::optional<Size> kernel = {}, PoolOptions options = {});

// (N, …) to (N, product).
TRAINGRAPH_API Block flatten();
// Of a sample, without the batch; one extent may be -1.
TRAINGRAPH_API Block reshape(Shape shape);
// The axes of a sample in this order; 1 is the first behind the batch.
TRAINGRAPH_API Block permute(Shape axes);
TRAINGRAPH_API Block dropout(float rate, std::uint64_t seed = 0);

struct LstmOptions {
  std::int64_t layers = 1;
  bool bidirectional = false;
  float dropout = 0;               // between layers
  bool returns_sequences = false;  // else the last step, (N, features)
};
// Of sequences (N, T, C), also called with lengths. Weights are Glorot-uniform; biases 0, of forget
// gates 1.
TRAINGRAPH_API Block lstm(std::int64_t hidden, LstmOptions options = {});
TRAINGRAPH_API Block lstm(std::int64_t inputs, std::int64_t hidden, LstmOptions options = {});

struct GruOptions {
  bool returns_sequences = false;  // else the last step, (N, hidden)
};
// Of sequences (N, T, C), a layer for each gate and step. Weights are Glorot-uniform, biases 0.
TRAINGRAPH_API Block gru(std::int64_t hidden, GruOptions options = {});

// Rows of a table of normal numbers.
TRAINGRAPH_API Block embedding(std::int64_t count, std::int64_t dimension,
                               std::optional<std::int64_t> padding_index = {},
                               DataType data_type = DataType::kFloat32);

// Adds a row of a table, normal with deviation 0.05, to each step of sequences (N, T, C).
TRAINGRAPH_API Block positional_embedding();

struct AttentionOptions {
  float dropout = 0;  // of probabilities
  bool bias = true;
  bool causal = false;  // a step reads itself and those before it
};
// Multi-head attention of sequences (N, T, C) over themselves. Called with lengths it reads no step
// behind them, and gives zeros there.
TRAINGRAPH_API Block attention(std::int64_t heads, AttentionOptions options = {});
TRAINGRAPH_API Block attention(std::int64_t inputs, std::int64_t heads,
                               AttentionOptions options = {});

// By name; a, b as in ActivationDescriptor. "softmax" and "log_softmax" go over the last axis, of
// images over channels.
TRAINGRAPH_API Block activation(const std::string& name, std::optional<float> a = {},
                                std::optional<float> b = {});

// Rates and weight_decay are 0 or more.
TRAINGRAPH_API OptimizerPtr sgd(float learning_rate = 1e-2f, float momentum = 0,
                                bool nesterov = false);
TRAINGRAPH_API OptimizerPtr adam(float learning_rate = 1e-3f, AdamOptions options = {});
TRAINGRAPH_API OptimizerPtr adamw(float learning_rate = 1e-3f, float weight_decay = 1e-2f,
                                  AdamOptions options = {});
TRAINGRAPH_API OptimizerPtr rmsprop(float learning_rate = 1e-3f, RMSPropOptions options = {});

struct ModelOptions {
  Shape input = {};                         // of a sample
  std::optional<DataType> input_type = {};  // none: int32 before an embedding, else float32
  std::variant<std::string, LayerPtr> loss = "softmax_cross_entropy";
  std::variant<std::string, OptimizerPtr> optimizer = "adam";
  std::string labels = "classes";  // of softmax cross entropy; or "one_hot"
  bool weights = false;            // whether 'w' weights each value of the loss
  std::vector<Block> train = {};   // those of shared() whose weights change; none: all weights
  std::int64_t batch_size = 32;
  Device device = Device::any();
  bool any_batch_size = false;  // whether smaller batches run in the same program
  std::optional<distributed::Communicator> distributed = {};  // the ranks that train it together
  distributed::Options ranks = {};                            // and how they do
};
// A graph of the blocks with input 'x' and labels 'y', compiled. Labels have the prediction's
// shape, or are int32 classes for softmax cross entropy.
TRAINGRAPH_API std::shared_ptr<TrainingGraph> model(std::vector<Block> blocks,
                                                    const ModelOptions& options);

struct NetworkOptions {
  std::vector<Value> inputs = {};
  std::vector<Value> outputs = {};  // the first is what a named loss compares and `predict` gives
  // A Value is trained on by the mean of its elements. Inputs that it alone reads are labels.
  std::variant<std::string, LayerPtr, Value> loss = "softmax_cross_entropy";
  std::variant<std::string, OptimizerPtr> optimizer = "adam";
  std::string labels = "classes";
  bool weights = false;
  std::vector<Block> train = {};
  std::int64_t batch_size = 32;
  Device device = Device::any();
  bool any_batch_size = false;  // whether smaller batches run in the same program
  std::optional<distributed::Communicator> distributed = {};  // the ranks that train it together
  distributed::Options ranks = {};                            // and how they do
};
// The same of values. Inputs without names are 'x', or 'x0', 'x1', … of several; a label is 'y'.
// Outputs after the first are declared as 'output1', 'output2', ….
TRAINGRAPH_API std::shared_ptr<TrainingGraph> model(const NetworkOptions& options);

}  // namespace traingraph::nn
