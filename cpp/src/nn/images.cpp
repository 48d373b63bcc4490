// Normalization, pooling and shapes: blocks that pass on what stands behind them.
#include <traingraph/batch_normalization.h>
#include <traingraph/data_movement.h>
#include <traingraph/group_normalization.h>
#include <traingraph/layer_normalization.h>
#include <traingraph/pooling.h>
#include <traingraph/softmax.h>

#include "nn/layer_block.h"

namespace traingraph::nn {
namespace {

constexpr Block::Kind kThrough = Block::Kind::kThrough;

Block batch_norm_block(const std::string& text, std::optional<std::int64_t> channels,
                       const BatchNormOptions& options) {
  const auto make = [=](const GraphPtr& graph, const TensorPtr& x, bool) {
    const Shape& shape = x->descriptor().shape;
    if (shape.size() < 2 || channels.value_or(shape[1]) != shape[1]) {
      refuse_source(text, "(N, " + (channels ? std::to_string(*channels) : "C") + ", …)", x);
    }
    BatchNormalization own(shape[1], options.epsilon, options.momentum);
    return graph->node(std::make_shared<BatchNormalization>(
                           shape[1], like_source(x, own.mean()), like_source(x, own.variance()),
                           like_source(x, own.beta().tensor), like_source(x, own.gamma().tensor),
                           options.epsilon, options.momentum),
                       x);
  };
  return layer_block(text, make, Block::Kind::kNormalizer);
}

Block layer_norm_block(const std::string& text, const Shape& expected, float epsilon) {
  const auto make = [=](const GraphPtr& graph, const TensorPtr& x, bool) {
    const Shape& shape = x->descriptor().shape;
    const std::size_t usual = shape.size() == 4 ? 3 : 1;
    const std::size_t axes = expected.empty() ? usual : expected.size();
    Shape last;
    if (shape.size() > axes)
      last.assign(shape.end() - static_cast<std::ptrdiff_t>(axes), shape.end());
    if (last.empty() || (!expected.empty() && last != expected)) {
      refuse_source(text, expected.empty() ? "(N, …)" : "that ends with " + to_string(expected), x);
    }
    return graph->node(std::make_shared<LayerNormalization>(
                           last, like_source(x, Tensor::filled(TensorDescriptor(last), 0)),
                           like_source(x, Tensor::filled(TensorDescriptor(last), 1)), epsilon),
                       x);
  };
  return layer_block(text, make, Block::Kind::kNormalizer);
}

Block group_norm_block(const std::string& text, std::int64_t groups, float epsilon) {
  expect_some(text, "groups", groups);
  const auto make = [=](const GraphPtr& graph, const TensorPtr& x, bool) {
    const Shape& shape = x->descriptor().shape;
    if (shape.size() < 2 || shape[1] % groups != 0) {
      refuse_source(text, "of a multiple of " + std::to_string(groups) + " channels on axis 1", x);
    }
    const TensorDescriptor channels({shape[1]});
    return graph->node(std::make_shared<GroupNormalization>(
                           shape[1], groups, like_source(x, Tensor::filled(channels, 0)),
                           like_source(x, Tensor::filled(channels, 1)), epsilon),
                       x);
  };
  return layer_block(text, make, Block::Kind::kNormalizer);
}

Block pool_block(const char* name, PoolingType type, const std::optional<Size>& kernel,
                 const PoolOptions& options) {
  const std::string text = kernel ? call_text(name, *kernel) : call_text(name);
  expect_some(text, "rows and columns of the window", smallest(kernel));
  // A descriptor takes 0 for the window's.
  expect_some(text, "rows and columns of the stride", smallest(options.stride));
  const auto make = [=](const GraphPtr& graph, const TensorPtr& x, bool) {
    const Shape& shape = x->descriptor().shape;
    if (shape.size() != 4) refuse_source(text, "(N, C, H, W)", x);
    const Size window = kernel.value_or(Size(shape[2], shape[3]));
    const Size stride = options.stride.value_or(window);
    PoolingDescriptor d;
    d.type = type;
    d.kernel_height = window.y;
    d.kernel_width = window.x;
    d.stride_y = stride.y;
    d.stride_x = stride.x;
    d.padding_policy = options.padding.policy;
    d.padding_y = options.padding.sizes.y;
    d.padding_x = options.padding.sizes.x;
    return graph->node(std::make_shared<Pooling>(d), x);
  };
  return layer_block(text, make, kThrough);
}

}  // namespace

Block batch_norm(BatchNormOptions options) {
  return batch_norm_block(call_text("batch_norm"), std::nullopt, options);
}

Block batch_norm(std::int64_t channels, BatchNormOptions options) {
  return batch_norm_block(call_text("batch_norm", channels), channels, options);
}

Block layer_norm(Shape shape, float epsilon) {
  const std::string extents = shape.empty() ? "" : to_string(shape);
  return layer_norm_block("layer_norm(" + extents + ")", shape, epsilon);
}

Block group_norm(std::int64_t groups, float epsilon) {
  return group_norm_block(call_text("group_norm", groups), groups, epsilon);
}

Block max_pool(std::optional<Size> kernel, PoolOptions options) {
  return pool_block("max_pool", PoolingType::kMax, kernel, options);
}

Block average_pool(std::optional<Size> kernel, PoolOptions options) {
  return pool_block("average_pool", PoolingType::kAverage, kernel, options);
}

Block reshape(Shape shape) {
  const std::string text = "reshape(" + to_string(shape) + ")";
  const auto make = [shape](const GraphPtr& graph, const TensorPtr& x, bool) {
    Shape whole{x->descriptor().shape.front()};
    whole.insert(whole.end(), shape.begin(), shape.end());
    return graph->reshape(whole, x);
  };
  return layer_block(text, make, kThrough);
}

Block permute(Shape axes) {
  const auto make = [axes](const GraphPtr& graph, const TensorPtr& x, bool) {
    Shape order{0};
    order.insert(order.end(), axes.begin(), axes.end());
    return graph->transpose(order, x);
  };
  return layer_block("permute(" + to_string(axes) + ")", make, kThrough);
}

Block flatten() {
  const auto make = [](const GraphPtr& graph, const TensorPtr& x, bool) {
    return graph->reshape({x->descriptor().shape.front(), -1}, x);
  };
  return layer_block("flatten()", make, kThrough);
}

Block dropout(float rate, std::uint64_t seed) {
  const Dropout checked(rate, seed);
  const auto make = [=](const GraphPtr& graph, const TensorPtr& x, bool) {
    return graph->node(std::make_shared<Dropout>(rate, seed), x);
  };
  return layer_block(call_text("dropout", rate), make, kThrough);
}

}  // namespace traingraph::nn
