#include "nn/layer_block.h"

namespace traingraph::nn {
namespace {

template <class E>
[[noreturn]] void name_block(const std::string& text, const TensorPtr& x, const E& error) {
  const std::string message = error.what();
  if (message.starts_with("[" + text + "]")) throw;
  throw E(message + " in block " + text + " over " + to_string(x->descriptor().shape));
}

}  // namespace

Block layer_block(const std::string& text, Block::Make make, Block::Kind kind) {
  return {text,
          [text, make = std::move(make)](const GraphPtr& graph, const TensorPtr& x,
                                         bool before_rectifier) {
            try {
              return make(graph, x, before_rectifier);
            } catch (const ShapeError& error) {
              name_block(text, x, error);
            } catch (const DataTypeError& error) {
              name_block(text, x, error);
            } catch (const InvalidArgument& error) {
              name_block(text, x, error);
            }
          },
          kind};
}

}  // namespace traingraph::nn
