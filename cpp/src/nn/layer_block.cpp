// Errors that name a block, and parameters in the type of its source.
#include "nn/layer_block.h"

#include <algorithm>

namespace traingraph::nn {
namespace {

template <class E>
[[noreturn]] void name_block(const std::string& text, const TensorPtr& x, const E& error) {
  const std::string message = error.what();
  if (message.starts_with("[" + text + "]")) throw;
  throw E(message + " in block " + text + " over " + to_string(x->descriptor().shape));
}

template <class F>
TensorPtr named(const std::string& text, const TensorPtr& x, const F& make) {
  try {
    return make();
  } catch (const ShapeError& error) {
    name_block(text, x, error);
  } catch (const DataTypeError& error) {
    name_block(text, x, error);
  } catch (const InvalidArgument& error) {
    name_block(text, x, error);
  }
}

}  // namespace

TensorPtr in_type(DataType type, const TensorPtr& made) {
  if (type != DataType::kFloat64) return made;
  const Shape& shape = made->descriptor().shape;
  const auto* values = static_cast<const float*>(made->data().bytes);
  const std::vector<double> wide(values, values + element_count(shape));
  return Tensor::create(
      TensorDescriptor(shape, type),
      TensorData::copy_of(wide.data(), wide.size() * sizeof(double), type, shape));
}

TensorPtr like_source(const TensorPtr& x, const TensorPtr& made) {
  return in_type(x->descriptor().data_type, made);
}

std::vector<TensorPtr> like_source(const TensorPtr& x, std::vector<TensorPtr> made) {
  std::ranges::transform(made, made.begin(),
                         [&x](const TensorPtr& one) { return like_source(x, one); });
  return made;
}

Block layer_block(const std::string& text, Block::Make make, Block::Kind kind) {
  return {text,
          [text, make = std::move(make)](const GraphPtr& graph, const TensorPtr& x,
                                         bool before_rectifier) {
            return named(text, x, [&] { return make(graph, x, before_rectifier); });
          },
          kind};
}

Block sequence_block(const std::string& text, Block::MakeOfSequences make) {
  return Block::of_sequences(text, [text, make = std::move(make)](const GraphPtr& graph,
                                                                  const TensorPtr& x,
                                                                  const TensorPtr& lengths) {
    return named(text, x, [&] {
      if (lengths != nullptr && lengths->descriptor().data_type != DataType::kInt32) {
        const TensorDescriptor& given = lengths->descriptor();
        throw DataTypeError("[" + text + "] expected lengths of int32, one for each sequence, " +
                            "but got " + name(given.data_type) + " " + to_string(given.shape));
      }
      return make(graph, x, lengths);
    });
  });
}

}  // namespace traingraph::nn
