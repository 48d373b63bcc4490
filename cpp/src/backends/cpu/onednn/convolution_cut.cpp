// A part should last long beside the call that computes it, there should be enough of them for many
// threads, and what cutting costs (calls, copies, additions) should stay below a twentieth of the
// whole, because one thread pays it too.
#include "backends/cpu/onednn/convolution_cut.h"

#include <algorithm>

#include "ir/extents.h"

namespace traingraph::cpu {
namespace {

using ir::Op;

// One part for each so many nanoseconds, of the first four parts and of more.
constexpr double kShortPart = 4e4, kPart = 1e5;
constexpr std::int64_t kMostParts = 64;  // of results
constexpr std::int64_t kMostSums = 16;   // each has a gradient of its own, which is added
constexpr std::int64_t kFewParts = 8;    // below them channels are cut too
constexpr std::int64_t kLeastChannels = 32;
constexpr double kMostCost = 0.05;
// One thread's copies and additions, from caches or memory.
constexpr double kBytesPerNanosecond = 12;

struct Operand {
  const ir::Type& type;
  const ir::Layout& layout;

  std::int64_t extent(std::size_t axis) const { return type.shape[axis]; }
  double bytes() const { return static_cast<double>(ir::storage_bytes(type, layout)); }
  bool slices(int axis, std::int64_t count) const {
    return slices_of(type, layout, axis, count).has_value();
  }
};

struct Convolution {
  Operand x, weights, y;
  std::int64_t groups;
  double nanoseconds;

  std::int64_t samples() const { return x.extent(0); }
  // As far as they can be cut.
  std::int64_t samples_apart() const {
    const std::int64_t n = samples();
    return x.slices(0, n) && y.slices(0, n) ? n : 1;
  }
  // To copy or add so many, or a share of the whole that is larger by this factor.
  bool affords(double bytes, double factor = 1) const {
    return bytes / kBytesPerNanosecond <= factor * kMostCost * nanoseconds;
  }
};

std::int64_t parts_worth(double nanoseconds, std::int64_t most) {
  const double parts = std::max(std::min(nanoseconds / kShortPart, 4.0), nanoseconds / kPart);
  return static_cast<std::int64_t>(std::clamp(parts, 1.0, static_cast<double>(most)));
}

// At least so many, or half as many again, so that the last part lacks the fewest.
std::int64_t even_images(std::int64_t samples, std::int64_t least) {
  std::int64_t best = samples, lacking = samples;
  for (std::int64_t k = least; k <= std::min(samples, least * 3 / 2); ++k) {
    const std::int64_t missing = ir::divide_up(samples, k) * k - samples;
    if (missing < lacking) best = k, lacking = missing;
  }
  return best;
}

// Each result in one part: y, or x for gradient_data.
ConvolutionCut cut_results(const Convolution& c, bool gradient) {
  const std::int64_t samples = c.samples(), wanted = parts_worth(c.nanoseconds, kMostParts);
  if (wanted == 1 || (samples > 1 && c.samples_apart() == 1)) return {samples, 1, 1};
  // Large weights are to be read for many pixels.
  constexpr double kLargeWeights = 512 * 1024;
  constexpr std::int64_t kPixels = 200;
  const std::int64_t pixels = c.y.extent(2) * c.y.extent(3);
  const std::int64_t least = c.weights.bytes() > kLargeWeights ? ir::divide_up(kPixels, pixels) : 1;
  const std::int64_t images = even_images(samples, std::max(least, ir::divide_up(samples, wanted)));
  const ConvolutionCut whole{images, ir::divide_up(samples, images), 1};
  if (whole.ranges >= kFewParts || c.groups > 1) return whole;
  // Few ranges: by channels of the result too. Several images' results are copied then, and the
  // gradient's weights. A single range, which threads could not share at all, may cost more.
  const Operand& result = gradient ? c.x : c.y;
  const double copies = (images > 1 ? result.bytes() : 0) + (gradient ? c.weights.bytes() : 0);
  if (!c.affords(2 * copies, whole.ranges == 1 ? 4 : 1)) return whole;
  const std::int64_t enough = ir::divide_up(std::min(wanted, kFewParts), whole.ranges);
  for (std::int64_t slices = kFewParts; slices > 1; slices /= 2) {
    if (slices >= 2 * enough || result.extent(1) / slices < kLeastChannels) continue;
    if (result.slices(1, slices) && c.weights.slices(gradient ? 1 : 0, slices)) {
      return {images, whole.ranges, slices};
    }
  }
  return whole;
}

// The gradient of weights, whose parts over images are added, and whose parts over channels copy
// their channels of dy.
ConvolutionCut cut_sums(const Convolution& c) {
  const std::int64_t samples = c.samples();
  constexpr std::int64_t kShared[] = {16, 12, 8, 6, 4, 2};  // by two, three and four threads
  for (std::int64_t wanted : kShared) {
    if (wanted > parts_worth(c.nanoseconds, kMostSums)) continue;
    ConvolutionCut best;
    double least = -1;
    for (std::int64_t slices = 1; slices <= kMostSums; slices *= 2) {
      if (slices > 1 && (c.groups > 1 || c.y.extent(1) / slices < kLeastChannels ||
                         !c.y.slices(1, slices) || !c.weights.slices(0, slices))) {
        continue;
      }
      const std::int64_t images =
          ir::divide_up(samples, std::min(ir::divide_up(wanted, slices), c.samples_apart()));
      const ConvolutionCut cut{images, ir::divide_up(samples, images), slices};
      if (2 * cut.parts() <= wanted) continue;
      const double bytes =
          (cut.ranges > 1 ? static_cast<double>(2 * cut.ranges + 1) * c.weights.bytes() : 0) +
          (slices > 1 && images > 1 ? 2 * c.y.bytes() : 0) +
          static_cast<double>(slices - 1) / 4 * c.x.bytes();
      if (c.affords(bytes) && (least < 0 || bytes < least)) best = cut, least = bytes;
    }
    if (least >= 0) return best;
  }
  return {samples, 1, 1};
}

}  // namespace

std::optional<Slices> slices_of(const ir::Type& type, const ir::Layout& layout, int axis,
                                std::int64_t count) {
  for (int outer = 0; outer <= axis && !layout.order.empty(); ++outer) {
    if (layout.order[static_cast<std::size_t>(outer)] != outer) return {};
  }
  std::int64_t block = 1, runs = 1;
  for (const ir::Layout::Block& b : layout.blocks) {
    if (b.axis == axis) block *= b.size;
  }
  if (type.shape[static_cast<std::size_t>(axis)] % (count * block) != 0) return {};
  const auto dimensions = ir::physical_dimensions(type.shape, layout);
  for (int outer = 0; outer < axis; ++outer) {
    runs *= dimensions[static_cast<std::size_t>(outer)].extent;
  }
  return Slices{runs, ir::storage_bytes(type, layout) / static_cast<std::size_t>(runs * count)};
}

ConvolutionCut cut_of(const ir::Graph& graph, const ir::Node& node, double operations) {
  const bool to_data = node.op == Op::convolution_gradient_data;
  const bool to_weights = node.op == Op::convolution_gradient_weights;
  const auto operand = [&](ir::ValueId id) {
    return Operand{graph.value(id).type, graph.value(id).layout};
  };
  const Operand first = operand(node.inputs[0]), second = operand(node.inputs[1]),
                result = operand(node.outputs[0]);
  const Convolution c{to_data ? result : (to_weights ? second : first),
                      to_weights ? result : second, to_data || to_weights ? first : result,
                      std::get<ir::ConvolutionAttributes>(node.attributes).groups,
                      nanoseconds_to_compute(operations)};
  return to_weights ? cut_sums(c) : cut_results(c, to_data);
}

}  // namespace traingraph::cpu
