// Maximum, average and L2 norm of a moving window, and their gradients, over plain, channels-last
// and blocked layouts. All of a node's tensors share one layout.
#include <algorithm>

#include "backends/cpu/channel_groups.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/half.h"
#include "backends/cpu/isa/pooling.h"
#include "backends/cpu/isa_select.h"
#include "backends/cpu/parallel.h"
#include "ir/window_taps.h"

namespace traingraph::cpu {
namespace {

using ir::PoolingKind;

const ir::PoolingAttributes& attributes_of(const ir::Node& node) {
  return std::get<ir::PoolingAttributes>(node.attributes);
}

bool is_gradient(const ir::Node& node) { return node.op == ir::Op::pooling_gradient; }

// What the gradient's forward pass left (the index, or x and y), else what dy has.
const ir::Value& leading(const ir::Graph& graph, const ir::Node& node) {
  return graph.value(node.inputs.back());
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const DataType type = graph.type(node.inputs[0]).data_type;
  if (type == DataType::kFloat32) return {};
  const ir::Value& x = leading(graph, node);
  if (ir::is_half(type) && graph.type(node.outputs[0]).data_type == type &&
      attributes_of(node).kind == PoolingKind::max && !x.layout.plain() &&
      ChannelGroups::takes(x.type.shape, x.layout)) {
    return {};
  }
  return Support::no("hand-written pooling loops take float32, and maxima of 16 bits in lanes");
}

// All of a node's tensors share one layout.
LayoutChoice layouts(const ir::Graph& graph, const ir::Node& node) {
  const ir::Value& x = leading(graph, node);
  const ir::Layout layout = ChannelGroups::takes(x.type.shape, x.layout) ? x.layout : ir::Layout{};
  return {std::vector<ir::Layout>(node.inputs.size(), layout),
          std::vector<ir::Layout>(node.outputs.size(), layout)};
}

// Taps of one axis for each of `targets` coordinates.
struct Axis {
  std::vector<std::int32_t> begin{0};
  std::vector<Tap> taps;
  std::vector<float> factors;  // per result: 1 / (elements of the window)

  Axis(const ir::PoolingAttributes& a, int axis, std::int64_t source, std::int64_t results,
       bool gradient) {
    const ir::Window& w = a.window;
    auto coordinate = [&](std::int64_t result, std::int64_t tap) {
      return result * w.stride[axis] - w.padding_before[axis] + tap * w.dilation[axis];
    };
    std::vector<std::vector<Tap>> of(static_cast<std::size_t>(gradient ? source : results));
    for (std::int64_t result = 0; result < results; ++result) {
      const ir::Taps inside = ir::taps_in(w, axis, result, source);
      const std::int64_t covered = inside.end - inside.first;
      for (std::int64_t tap = inside.first; tap < inside.end; ++tap) {
        const std::int64_t at = coordinate(result, tap);
        of[static_cast<std::size_t>(gradient ? at : result)].push_back(
            {static_cast<std::int32_t>(gradient ? result : at), static_cast<std::int32_t>(tap)});
      }
      const auto elements = static_cast<float>(a.count_includes_padding ? w.kernel[axis] : covered);
      factors.push_back(1 / elements);
    }
    for (const std::vector<Tap>& part : of) {
      taps.insert(taps.end(), part.begin(), part.end());
      begin.push_back(static_cast<std::int32_t>(taps.size()));
    }
  }

  AxisTaps view() const { return {begin.data(), taps.data()}; }
};

class Pooling final : public Kernel {
 public:
  Pooling(const ir::Graph& graph, const ir::Node& node)
      : Pooling(
            graph, node,
            is_gradient(node) ? attributes_of(node).source_shape : graph.type(node.inputs[0]).shape,
            graph.type(is_gradient(node) ? node.inputs[0] : node.outputs[0]).shape) {}

  void run(Pointers pointers) override {
    auto in = [&](std::size_t i) { return pointers[node_.inputs[i]]; };
    auto out = [&](std::size_t i) { return pointers[node_.outputs[i]]; };
    const std::int64_t per_part = std::max<std::int64_t>(
        1, kPartElements / std::max<std::int64_t>(1, rows_ * plane_.target_columns * plane_.lanes));
    parallel_for((planes_ + per_part - 1) / per_part, threads_, [&](std::int64_t part) {
      const std::int64_t end = std::min(planes_, (part + 1) * per_part);
      for (std::int64_t n = part * per_part; n < end; ++n) {
        auto target = [&](std::byte* base) {
          return reinterpret_cast<float*>(base) + n * target_elements_;
        };
        auto source = [&](const std::byte* base) {
          return reinterpret_cast<const float*>(base) + n * source_elements_;
        };
        auto index = [&](std::byte* base, std::int64_t elements) {
          return base + n * elements * (plane_.wide_index ? 4 : 1);
        };
        if (!gradient_ && kind_ == PoolingKind::max) {
          loops_.maximum[loop_](plane_, in(0) + n * source_elements_ * size_,
                                out(0) + n * target_elements_ * size_,
                                indexed_ ? index(out(1), target_elements_) : nullptr, 0, rows_);
        } else if (!gradient_) {
          (kind_ == PoolingKind::average ? loops_.average : loops_.l2_norm)(
              plane_, source(in(0)), target(out(0)), 0, rows_);
        } else if (kind_ == PoolingKind::max) {
          loops_.maximum_gradient[loop_](plane_, in(0) + n * source_elements_ * size_,
                                         index(in(1), source_elements_),
                                         out(0) + n * target_elements_ * size_, 0, rows_);
        } else if (kind_ == PoolingKind::average) {
          loops_.average_gradient(plane_, source(in(0)), target(out(0)), 0, rows_);
        } else {
          loops_.l2_norm_gradient(plane_, source(in(0)), target(in(1)), source(in(2)),
                                  target(out(0)), 0, rows_);
        }
      }
    });
  }

 private:
  static constexpr std::int64_t kPartElements = 8192;

  // x (N, C, H, W), y (N, C, P, Q)
  Pooling(const ir::Graph& graph, const ir::Node& node, const Shape& x, const Shape& y)
      : loops_(*loops().pooling),
        node_(node),
        kind_(attributes_of(node).kind),
        gradient_(is_gradient(node)),
        loop_(loop_of(graph.type(node.inputs[0]).data_type)),
        size_(loop_ == 0 ? 4 : 2),
        height_(attributes_of(node), 0, x[2], y[2], gradient_),
        width_(attributes_of(node), 1, x[3], y[3], gradient_) {
    const ir::Layout& layout = graph.value(node.inputs[0]).layout;
    plane_.lanes = layout.plain() ? 1 : (layout.blocks.empty() ? x[1] : layout.blocks[0].size);
    planes_ = x[0] * x[1] / plane_.lanes;
    const Shape& target = gradient_ ? x : y;
    const Shape& source = gradient_ ? y : x;
    plane_.rows = height_.view();
    plane_.columns = width_.view();
    plane_.row_factors = height_.factors.data();
    plane_.column_factors = width_.factors.data();
    plane_.target_columns = target[3];
    plane_.source_columns = source[3];
    const ir::Window& window = attributes_of(node).window;
    plane_.kernel_columns = static_cast<std::int32_t>(window.kernel[1]);
    plane_.first_column_tap =
        static_cast<std::int32_t>(ir::taps_in(window, 1, y[3] - 1, x[3]).first);
    plane_.end_column_tap = static_cast<std::int32_t>(ir::taps_in(window, 1, 0, x[3]).end);
    plane_.column_stride = window.stride[1];
    plane_.column_dilation = window.dilation[1];
    plane_.column_padding = window.padding_before[1];
    rows_ = target[2];
    target_elements_ = target[2] * target[3] * plane_.lanes;
    source_elements_ = source[2] * source[3] * plane_.lanes;
    indexed_ = !gradient_ && attributes_of(node).with_index;
    if (kind_ == PoolingKind::max && (indexed_ || gradient_)) {
      const ir::ValueId index = gradient_ ? node.inputs[1] : node.outputs[1];
      plane_.wide_index = graph.type(index).data_type != DataType::kUInt8;
    }
    // Each element of the source is read about once per tap of a window.
    const double taps = static_cast<double>(height_.taps.size()) *
                        static_cast<double>(width_.taps.size()) * static_cast<double>(planes_);
    threads_ =
        threads_for(taps * static_cast<double>(plane_.lanes) * (plane_.lanes > 1 ? 0.1 : 0.3));
  }

  const PoolingLoops& loops_;
  ir::Node node_;
  PoolingKind kind_;
  bool gradient_;
  int loop_;  // of the elements' type
  std::int64_t size_;
  bool indexed_ = false;
  Axis height_, width_;
  PoolingPlane plane_{};
  std::int64_t planes_ = 0, rows_ = 0;
  std::int64_t target_elements_ = 0, source_elements_ = 0;  // of one plane
  int threads_ = 1;
};

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<Pooling>(graph, node);
}

}  // namespace

const std::vector<KernelEntry>& pooling_entries() {
  static const std::vector<KernelEntry> entries = {
      KernelEntry{ir::Op::pooling, supports, make, layouts, nullptr},
      KernelEntry{ir::Op::pooling_gradient, supports, make, layouts, nullptr}};
  return entries;
}

}  // namespace traingraph::cpu
