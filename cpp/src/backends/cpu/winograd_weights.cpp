// Gradients of weights by Winograd's method: products over tiles. Their order follows from shapes.
#include "backends/cpu/isa/reduce.h"
#include "backends/cpu/winograd_kernel.h"

namespace traingraph::cpu {
namespace {

// The gradient of weights. Blocks of tiles that threads compute apart go in parts, each of which
// has a gradient of its own; these are added in their order.
class WinogradWeights final : public WinogradKernel {
 public:
  WinogradWeights(const ir::Graph& graph, const ir::Node& node) : WinogradKernel(graph, node) {
    if (cut_.apart) parts_ = std::clamp<std::int64_t>(problem_.tiles / kTilesOfPart, 1, kMostParts);
    summed_ = parts_ > 1 || ir::is_half(type_);
    threads_ = cut_.apart ? static_cast<int>(std::min<std::int64_t>(threads_, parts_)) : threads_;
  }

  std::size_t workspace_bytes() const override {
    const std::int64_t owners = cut_.apart ? threads_ : 1;
    return static_cast<std::size_t>(sums_floats() + owners * own_floats()) * sizeof(float);
  }

  void run(Pointers pointers) override {
    float* const sums =
        summed_ ? workspace(pointers) : reinterpret_cast<float*>(pointers[problem_.weights]);
    if (cut_.apart) {
      shared_.share_out(parts_, threads_);
      parallel_for(threads_, threads_, [&](std::int64_t thread) {
        shared_.take_all(thread, 1, [&](std::int64_t part, std::int64_t) {
          compute(pointers, cut_.blocks * part / parts_, cut_.blocks * (part + 1) / parts_, thread,
                  1, sums + part * size());
        });
      });
    } else {
      compute(pointers, 0, cut_.blocks, 0, threads_, sums);
    }
    if (summed_) add(pointers, sums);
  }

 private:
  static constexpr std::int64_t kMostParts = 16, kTilesOfPart = 128, kElementsAtOnce = 512;

  std::int64_t size() const { return 9 * problem_.channels * problem_.columns; }
  std::int64_t sums_floats() const { return summed_ ? parts_ * size() : 0; }
  // Transforms of the source, of all columns' gradient, and of a slice of the weights.
  std::int64_t own_floats() const {
    return kWinogradNumbers * (source_apart() + result_apart(problem_.columns) + weights_apart());
  }

  // Of blocks [first, last), on so many threads. The transformed gradient is kept until
  // the last block; that of several slices goes back to weights after each.
  void compute(Pointers pointers, std::int64_t first, std::int64_t last, std::int64_t owner,
               int threads, float* to) const {
    const std::int64_t apart = result_apart(problem_.columns);
    float* const source = workspace(pointers) + sums_floats() + owner * own_floats();
    float* const gradient = source + kWinogradNumbers * source_apart();
    float* const weights = gradient + kWinogradNumbers * apart;
    for (std::int64_t block = first; block < last; ++block) {
      transform_source(pointers, block, source, threads);
      transform_gradient(pointers, block, gradient, threads);
      for (std::int64_t slice = 0; slice < slices(); ++slice) {
        const float* const here = gradient + slice * cut_.columns / loops_.lanes * block_apart();
        parallel_for(kWinogradNumbers, threads, [&](std::int64_t w) {
          loops_.add_up(product_of(block, slice, source + w * source_apart()), here + w * apart,
                        block_apart(), slices() == 1 && block > first,
                        weights + w * weights_apart());
        });
        if (slices() == 1 && block + 1 < last) continue;
        each_block_of_weights(slice, false, threads,
                              [&](std::int64_t at, std::int64_t place, std::int64_t row) {
                                loops_.weights_gradient(weights + place, row, weights_apart(),
                                                        slices() > 1 && block > first, to + at);
                              });
      }
    }
  }

  void transform_gradient(Pointers pointers, std::int64_t block, float* to, int threads) const {
    const WinogradImages& images = problem_.result_images;
    each_piece(problem_.columns, tiles_of(block), threads,
               [&](std::int64_t column, std::int64_t first, std::int64_t count) {
                 transforms_.gradient(images,
                                      elements(pointers, problem_.result, column * plane(images)),
                                      first_of(block) + first, count,
                                      to + column * block_apart() + first * loops_.lanes,
                                      result_apart(problem_.columns));
               });
  }

  // weights = Σ sums (parts, size)
  void add(Pointers pointers, const float* sums) const {
    parallel_for(ir::divide_up(size(), kElementsAtOnce), threads_, [&](std::int64_t part) {
      const std::int64_t first = part * kElementsAtOnce;
      const std::int64_t width = std::min(kElementsAtOnce, size() - first);
      double wide[kElementsAtOnce] = {};
      float rounded[kElementsAtOnce];
      loops().reduce->sum.columns(wide, sums + first, parts_, size(), width);
      for (std::int64_t i = 0; i < width; ++i) rounded[i] = static_cast<float>(wide[i]);
      from_floats(type_, rounded, elements(pointers, problem_.weights, first), width);
    });
  }

  std::int64_t parts_ = 1;
  bool summed_ = false;  // in float32, of parts or for a result of 16 bits
};

}  // namespace

std::unique_ptr<Kernel> make_winograd_weights(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<WinogradWeights>(graph, node);
}

}  // namespace traingraph::cpu
