// `Block` and `sequential`: blocks from layers, names and functions, and what a block tells those
// before it.
#include <algorithm>

#include <traingraph/activation.h>
#include <traingraph/arithmetic.h>
#include <traingraph/batch_normalization.h>
#include <traingraph/data_movement.h>
#include <traingraph/describe.h>
#include <traingraph/embedding.h>
#include <traingraph/errors.h>
#include <traingraph/group_normalization.h>
#include <traingraph/instance_normalization.h>
#include <traingraph/layer_normalization.h>
#include <traingraph/nn.h>
#include <traingraph/pooling.h>
#include <traingraph/softmax.h>

#include "nn/layer_block.h"

namespace traingraph::nn {
namespace {

using Kind = Block::Kind;

template <class... Layers>
bool is_one_of(const Layer& layer) {
  return (... || (dynamic_cast<const Layers*>(&layer) != nullptr));
}

Kind kind_of(const Layer& layer) {
  if (const auto* activation = dynamic_cast<const Activation*>(&layer)) {
    const ActivationType type = activation->descriptor().type;
    const bool rectifies = type == ActivationType::kReLU || type == ActivationType::kReLUN;
    return rectifies ? Kind::kRectifier : Kind::kOther;
  }
  if (is_one_of<Embedding>(layer)) return Kind::kIndices;
  const bool normalizes =
      is_one_of<BatchNormalization, GroupNormalization, InstanceNormalization, LayerNormalization>(
          layer);
  if (normalizes) return Kind::kNormalizer;
  return is_one_of<Pooling, Dropout, Reshape, Transpose>(layer) ? Kind::kThrough : Kind::kOther;
}

// What the blocks from here on are for those before them.
Kind kind_of(std::vector<Block>::const_iterator first, std::vector<Block>::const_iterator end) {
  const auto decides = [](const Block& block) { return block.kind() != Kind::kThrough; };
  const auto found = std::find_if(first, end, decides);
  return found == end ? Kind::kThrough : found->kind();
}

}  // namespace

Block::Block(std::string text, Make make, Kind kind)
    : text_(std::move(text)), make_(std::make_shared<const Make>(std::move(make))), kind_(kind) {}

Block::Block(const std::string& name) : Block(nn::activation(name)) {}
Block::Block(const char* name) : Block(std::string(name)) {}

Block Block::of_layer(LayerPtr layer) {
  if (layer == nullptr) throw InvalidArgument("[nn] expected a layer but got none");
  const Kind kind = kind_of(*layer);
  std::string text = layer->description();
  const auto make = [layer = std::move(layer)](const GraphPtr& graph, const TensorPtr& x, bool) {
    return graph->node(layer, x);
  };
  return {std::move(text), make, kind};
}

Block Block::of_function(std::string text, Function function) {
  return {std::move(text),
          [function = std::move(function)](const GraphPtr& graph, const TensorPtr& x, bool) {
            return function(graph, x);
          }};
}

Block Block::of_sequences(std::string text, MakeOfSequences make) {
  const auto shared = std::make_shared<const MakeOfSequences>(std::move(make));
  Block block(std::move(text), [shared](const GraphPtr& graph, const TensorPtr& x, bool) {
    return (*shared)(graph, x, nullptr);
  });
  block.make_of_sequences_ = shared;
  return block;
}

void Block::expect_call(const GraphPtr& graph, const TensorPtr& x) const {
  if (graph == nullptr) throw InvalidArgument("[" + text_ + "] expected a graph but got none");
  if (x == nullptr) throw InvalidArgument("[" + text_ + "] expected a tensor but got none");
}

void Block::expect_sequences() const {
  if (make_of_sequences_ != nullptr) return;
  throw InvalidArgument("[" + text_ +
                        "] expected one source but got lengths too, which attention " +
                        "and lstm take where they are called themselves");
}

TensorPtr Block::operator()(const GraphPtr& graph, const TensorPtr& x,
                            bool before_rectifier) const {
  expect_call(graph, x);
  TensorPtr result = (*make_)(graph, x, before_rectifier);
  if (result == nullptr) {
    throw InvalidArgument("[" + text_ + "] expected a tensor as its result but got none");
  }
  return result;
}

TensorPtr Block::operator()(const GraphPtr& graph, const TensorPtr& x,
                            const TensorPtr& lengths) const {
  expect_call(graph, x);
  expect_sequences();
  if (lengths == nullptr) throw InvalidArgument("[" + text_ + "] expected lengths but got none");
  return (*make_of_sequences_)(graph, x, lengths);
}

Block sequential(std::vector<Block> blocks) {
  const Kind kind = kind_of(blocks.begin(), blocks.end());
  std::string text = "sequential([";
  for (const Block& block : blocks) text += (&block == blocks.data() ? "" : ", ") + block.text();
  return {text + "])",
          [blocks = std::move(blocks)](const GraphPtr& graph, const TensorPtr& x,
                                       bool before_rectifier) {
            TensorPtr result = x;
            for (auto block = blocks.begin(); block != blocks.end(); ++block) {
              const Kind next = kind_of(block + 1, blocks.end());
              result = (*block)(
                  graph, result,
                  next == Kind::kRectifier || (next == Kind::kThrough && before_rectifier));
            }
            return result;
          },
          kind};
}

Block shared(std::vector<Block> blocks) {
  const Block inside = sequential(std::move(blocks));
  const auto layers = std::make_shared<SharedLayers>();
  Block result = layer_block(
      "shared(" + inside.text().substr(std::string("sequential(").size()),
      [=](const GraphPtr& graph, const TensorPtr& x, bool before_rectifier) {
        return layers->run(graph, [&] { return inside(graph, x, before_rectifier); });
      },
      inside.kind());
  result.shared_layers_ = layers;
  return result;
}

Block residual(std::vector<Block> blocks, std::vector<Block> shortcut) {
  const bool has_shortcut = !shortcut.empty();
  const Block inside = sequential(std::move(blocks));
  const Block outside = sequential(std::move(shortcut));
  const std::string text = "residual(" + inside.text().substr(std::string("sequential(").size());
  return layer_block(text, [=](const GraphPtr& graph, const TensorPtr& x, bool before_rectifier) {
    const TensorPtr result = inside(graph, x, before_rectifier);
    const TensorPtr beside = outside(graph, x, before_rectifier);
    const Shape &made = result->descriptor().shape, &kept = beside->descriptor().shape;
    if (made != kept) {
      throw ShapeError("[" + text + "] expected a result of the shape " + to_string(kept) +
                       (has_shortcut ? ", which the shortcut gives," : " beside it") + " but got " +
                       to_string(made) +
                       (has_shortcut ? "; one of the two has other outputs, or another stride"
                                     : "; give a shortcut"));
    }
    return graph->node(std::make_shared<Arithmetic>(ArithmeticOperation::kAdd),
                       std::vector<TensorPtr>{beside, result});
  });
}

const ClassDescription& Block::class_description() {
  static const ClassDescription description =
      Describing<Block>("Block",
                        "Given a graph and a tensor it makes a layer for that tensor's shape, adds "
                        "it and returns the result. Called again it makes another layer, "
                        "unless it is shared.")
          .not_copied()
          .repr(&Block::text);
  return description;
}

}  // namespace traingraph::nn
