// Which convolutions Winograd's method takes: those that it computes faster than directly.
#include "backends/cpu/winograd_problem.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "backends/cpu/half.h"
#include "backends/cpu/isa_select.h"
#include "ir/extents.h"

namespace traingraph::cpu {
namespace {

using ir::divide_up;
using ir::Op;

// Direct convolution is taken unless it needs so much more; that of bfloat16 by instructions for it
// takes half the time of float32, or as much for gradients of weights.
constexpr double kLeastGain = 1.25, kLeastGainOverBFloat16 = 1.5;

bool turned_off() {
  static const bool off = [] {
    const char* const text = std::getenv("TRAINGRAPH_WINOGRAD");
    return text != nullptr && std::string(text) == "0";
  }();
  return off;
}

const ir::Window& window_of(const ir::Node& node) {
  return std::get<ir::ConvolutionAttributes>(node.attributes).window;
}

bool has_shape_for_it(const ir::Node& node) {
  const ir::Window& w = window_of(node);
  bool fits = std::get<ir::ConvolutionAttributes>(node.attributes).groups == 1;
  for (int axis = 0; axis < 2; ++axis) {
    fits = fits && w.kernel[axis] == 3 && w.stride[axis] == 1 && w.dilation[axis] == 1;
    for (const std::int64_t* padding : {w.padding_before, w.padding_after}) {
      fits = fits && padding[axis] >= 0 && padding[axis] <= 2;
    }
  }
  return fits;
}

}  // namespace

double WinogradProblem::direct_operations() const {
  const WinogradImages& y = result_images;
  const std::int64_t images = tiles / (y.tile_rows * y.tile_columns);
  return 9.0 * static_cast<double>(images * y.height * y.width) *
         static_cast<double>(channels * columns);
}

// The transforms take the time of so many multiplications: of a tile of the source and the result,
// and of 3 × 3 weights (level v4, from ResNet-18's layers).
double WinogradProblem::operations() const {
  constexpr double kSource = 860, kResult = 480, kWeights = 1500, kProduct = 1.1;
  const auto c = static_cast<double>(channels), k = static_cast<double>(columns);
  const auto t = static_cast<double>(tiles);
  return kProduct * kWinogradNumbers * t * c * k + t * (kSource * c + kResult * k) +
         kWeights * c * k;
}

WinogradProblem winograd_problem_of(const ir::Graph& graph, const ir::Node& node) {
  const bool to_data = node.op == Op::convolution_gradient_data;
  const bool to_weights = node.op == Op::convolution_gradient_weights;
  WinogradProblem p{};
  p.source = node.inputs[to_weights ? 1 : 0];
  p.result = to_weights ? node.inputs[0] : node.outputs[0];
  p.weights = to_weights ? node.outputs[0] : node.inputs[1];
  const Shape &source = graph.type(p.source).shape, &result = graph.type(p.result).shape;
  p.channels = source[1];
  p.columns = result[1];
  const auto images = [&](const Shape& shape) {
    return WinogradImages{shape[1] * shape[2] * shape[3],
                          shape[2],
                          shape[3],
                          divide_up(result[2], kWinogradSide),
                          divide_up(result[3], kWinogradSide),
                          0,
                          0};
  };
  p.source_images = images(source);
  p.result_images = images(result);
  const ir::Window& w = window_of(node);
  p.source_images.top = -(to_data ? 2 - w.padding_before[0] : w.padding_before[0]);
  p.source_images.left = -(to_data ? 2 - w.padding_before[1] : w.padding_before[1]);
  p.tiles = source[0] * p.result_images.tile_rows * p.result_images.tile_columns;
  return p;
}

namespace {

Support takes_shape(const ir::Graph& graph, const ir::Node& node, double least_gain) {
  if (turned_off()) return Support::no("Winograd's method is turned off (TRAINGRAPH_WINOGRAD)");
  const WinogradLoops& l = *loops().winograd;
  if (!l.preferred) {
    return Support::no(std::string("Winograd's method is no gain at level ") + loops().level);
  }
  if (!has_shape_for_it(node)) {
    return Support::no("Winograd's method takes 3 x 3 weights, stride 1, padding up to 2, 1 group");
  }
  const WinogradProblem p = winograd_problem_of(graph, node);
  if (p.channels % l.lanes != 0 || p.columns % l.lanes != 0) {
    return Support::no("Winograd's method takes multiples of " + std::to_string(l.lanes) +
                       " channels");
  }
  if (p.direct_operations() < least_gain * p.operations()) {
    return Support::no("direct convolution is about as fast as Winograd's method");
  }
  return {};
}

}  // namespace

Support winograd_takes(const ir::Graph& graph, const ir::Node& node) {
  const DataType type = graph.type(node.inputs[0]).data_type;
  for (const auto* operands : {&node.inputs, &node.outputs}) {
    for (ir::ValueId id : *operands) {
      if (loop_of(type) < 0 || graph.type(id).data_type != type) {
        return Support::no("Winograd's method takes float32, or 16 bits of one type");
      }
    }
  }
  return takes_shape(graph, node,
                     type == DataType::kBFloat16 ? kLeastGainOverBFloat16 : kLeastGain);
}

bool winograd_beats_bfloat16(const ir::Graph& graph, const ir::Node& node) {
  return takes_shape(graph, node, kLeastGainOverBFloat16).yes;
}

WinogradCut winograd_cut_of(const WinogradProblem& p) {
  constexpr std::int64_t kFewBlocks = 8;
  constexpr std::int64_t kLeastTiles = 56, kMostTiles = 512;
  // Floats that stay in a cache: of the weights that each block reads, or of a slice's weights; and
  // of one operand of a block's products.
  constexpr std::int64_t kWeights = 1 << 20, kSlice = 1 << 21, kOperand = 1 << 22;
  const WinogradLoops& l = *loops().winograd;
  const std::int64_t wide = std::max(p.channels, p.columns);
  WinogradCut cut{};
  cut.tiles = l.tiles;
  cut.columns = p.columns;
  const std::int64_t weights = kWinogradNumbers * p.channels * p.columns;
  if (weights <= kWeights) {
    cut.apart = p.tiles >= kFewBlocks * l.tiles;
  } else {
    cut.tiles = std::clamp(kOperand / (kWinogradNumbers * wide), kLeastTiles, kMostTiles);
    const std::int64_t slices = divide_up(weights, kSlice);
    cut.columns = std::min(
        p.columns, divide_up(divide_up(p.columns, slices), l.panel_columns) * l.panel_columns);
  }
  // As even as can be: the workspace is that of the largest.
  cut.tiles = divide_up(p.tiles, divide_up(p.tiles, cut.tiles));
  cut.blocks = divide_up(p.tiles, cut.tiles);
  return cut;
}

}  // namespace traingraph::cpu
