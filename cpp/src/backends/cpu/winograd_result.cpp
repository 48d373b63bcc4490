// Results of convolutions and gradients of their sources by Winograd's method. A sum knows its
// channels alone: a sample has its bits wherever it lies in the batch.
#include "backends/cpu/matmul_problem.h"
#include "backends/cpu/winograd_kernel.h"

namespace traingraph::cpu {
namespace {

// y, or dx.
class WinogradResult final : public WinogradKernel {
 public:
  WinogradResult(const ir::Graph& graph, const ir::Node& node)
      : WinogradKernel(graph, node), exchanged_(node.op == ir::Op::convolution_gradient_data) {
    const MatmulTail tail =
        *matmul_tail_of(std::get<ir::ConvolutionAttributes>(node.attributes).epilogue);
    relu_ = tail.relu;
    if (tail.adds) bias_ = node.inputs[2];
  }

  std::size_t workspace_bytes() const override {
    const std::int64_t owners = cut_.apart ? threads_ : 1;
    return static_cast<std::size_t>(kWinogradNumbers * weights_apart() + owners * own_floats()) *
           sizeof(float);
  }

  void run(Pointers pointers) override {
    if (slices() == 1) transform_weights(pointers, 0);
    if (!cut_.apart) {
      for (std::int64_t block = 0; block < cut_.blocks; ++block) {
        compute(pointers, block, 0, threads_);
      }
      return;
    }
    shared_.share_out(cut_.blocks, threads_);
    parallel_for(threads_, threads_, [&](std::int64_t thread) {
      shared_.take_all(thread, 1, [&](std::int64_t block, std::int64_t) {
        compute(pointers, block, thread, 1);
      });
    });
  }

 private:
  // Transforms of the source and of a slice of the result.
  std::int64_t own_floats() const {
    return kWinogradNumbers * (source_apart() + result_apart(cut_.columns));
  }

  void compute(Pointers pointers, std::int64_t block, std::int64_t owner, int threads) const {
    const float* const weights = workspace(pointers);
    float* const source =
        workspace(pointers) + kWinogradNumbers * weights_apart() + owner * own_floats();
    float* const result = source + kWinogradNumbers * source_apart();
    const std::int64_t apart = result_apart(cut_.columns);
    transform_source(pointers, block, source, threads);
    for (std::int64_t slice = 0; slice < slices(); ++slice) {
      if (slices() > 1) transform_weights(pointers, slice);
      parallel_for(kWinogradNumbers, threads, [&](std::int64_t w) {
        loops_.multiply(product_of(block, slice, source + w * source_apart()),
                        weights + w * weights_apart(), result + w * apart, block_apart());
      });
      transform_result(pointers, block, slice, result, threads);
    }
  }

  void transform_weights(Pointers pointers, std::int64_t slice) const {
    float* const to = workspace(pointers);
    each_block_of_weights(slice, exchanged_, threads_,
                          [&](std::int64_t block, std::int64_t place, std::int64_t row) {
                            transforms_.weights(elements(pointers, problem_.weights, block),
                                                exchanged_, to + place, row, weights_apart());
                          });
  }

  void transform_result(Pointers pointers, std::int64_t block, std::int64_t slice,
                        const float* from, int threads) const {
    const WinogradImages& images = problem_.result_images;
    const std::int64_t lanes = loops_.lanes, begin = slice * cut_.columns / lanes;
    each_piece(
        columns_of(slice), tiles_of(block), threads,
        [&](std::int64_t column, std::int64_t first, std::int64_t count) {
          float bias[kMostLanes];
          if (bias_ != ir::kNone) {
            to_floats(type_, elements(pointers, bias_, (begin + column) * lanes), bias, lanes);
          }
          transforms_.result(images, from + column * block_apart() + first * lanes,
                             result_apart(cut_.columns), first_of(block) + first, count,
                             bias_ == ir::kNone ? nullptr : bias, relu_,
                             elements(pointers, problem_.result, (begin + column) * plane(images)));
        });
  }

  static constexpr std::int64_t kMostLanes = 16;

  bool exchanged_, relu_;
  ir::ValueId bias_ = ir::kNone;
};

}  // namespace

std::unique_ptr<Kernel> make_winograd_result(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<WinogradResult>(graph, node);
}

}  // namespace traingraph::cpu
