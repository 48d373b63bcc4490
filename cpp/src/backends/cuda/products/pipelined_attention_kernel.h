// Attention and its gradient on GPUs with WGMMA and TMA, for heads of at most 64 features of 16
// bits: the choice of kernels and their launch. For .cu files only.
#pragma once

#include "backends/cuda/device/tensor_map.h"
#include "backends/cuda/products/attention_kernel.h"
#include "backends/cuda/products/pipelined_attention.h"
#include "backends/cuda/products/pipelined_attention_gradient.h"
#include "backends/cuda/products/tensor_core_attention.h"

namespace traingraph::cuda {

template <class S>
class PipelinedAttention final : public AttentionKernel<S> {
 public:
  PipelinedAttention(const ir::Graph& graph, const ir::Node& node, const Context& context)
      : AttentionKernel<S>(graph, node) {
    AttentionTask<S>& task = this->task_;
    task.has_packs = true;
    is_plain_ = this->at_.mask == 0 && this->at_.key_mask == 0 && !task.drops && task.scale > 0;
    const std::int64_t wide = this->heads() * blocks_of(task.queries, 2 * kHeadTile);
    is_wide_ = !task.causal && wide >= 2 * context.multiprocessors;
  }
  // Whether these kernels serve the task.
  bool prepare() const {
    constexpr int kPack = 16 / sizeof(S);
    const std::int64_t features = this->task_.features;
    if (features > kHeadTile || features % kPack != 0) return false;
    if (is_plain_) {
      allow_shared_memory<true>();
    } else {
      allow_shared_memory<false>();
    }
    return true;
  }

  std::size_t workspace_bytes() const override {
    if (!this->is_gradient_) return 0;
    return static_cast<std::size_t>(rows() * (is_plain_ ? 2 : 1)) * sizeof(float);
  }
  bool uses_wgmma() const override { return true; }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (is_plain_) {
      launch_of<true>(pointers, stream);
    } else {
      launch_of<false>(pointers, stream);
    }
  }

 private:
  using MaskTiles = Tiling<S, WarpgroupProducts<S>, kHeadTile, 1, kHeadTile, 4, 2>;

  static std::int64_t blocks_of(std::int64_t rows, std::int64_t of_block) {
    return (rows + of_block - 1) / of_block;
  }
  // Of so many tiles, which begin at a multiple of kAlignment.
  static constexpr std::size_t shared_bytes(int tiles) {
    return tiles * kTmaTileBytes + WarpgroupProducts<S>::kAlignment;
  }
  static constexpr std::size_t kOfQueries = shared_bytes(2 + 2 * kQueryStages);
  static constexpr std::size_t kOfKeys = shared_bytes(2 + 2 * kKeyStages);
  static constexpr std::size_t kOfMask = shared_bytes(4);
  template <int kWarpgroups>
  static constexpr std::size_t kOfForward =
      shared_bytes(kWarpgroups + 2 * ForwardBlocks<kWarpgroups>::kStages);

  std::int64_t rows() const { return this->heads() * this->task_.queries; }

  template <class F>
  static void allow(F* kernel, std::size_t bytes) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(bytes)),
          "cudaFuncSetAttribute");
  }
  template <bool kPlain>
  static void allow_shared_memory() {
    allow(pipelined_attention<S, kPlain, 1>, kOfForward<1>);
    allow(pipelined_attention<S, kPlain, 2>, kOfForward<2>);
    allow(pipelined_slope_of_queries<S, kPlain>, kOfQueries);
    allow(pipelined_slope_of_keys<S, kPlain>, kOfKeys);
    allow(slope_of_mask_tile<S, MaskTiles>, kOfMask);
  }

  HeadMaps maps(const AttentionTask<S>& task, Rows<const S> dy, Rows<const S> y) const {
    const auto map = [&](Rows<const S> x, std::int64_t count) {
      return tensor_map(HeadRows{x.of, task.samples, count, task.heads, task.features, x.step,
                                 std::is_same_v<S, __nv_bfloat16>});
    };
    HeadMaps made{map(task.q, task.queries), map(task.k, task.keys), map(task.v, task.keys)};
    if (dy.of != nullptr) {
      made.dy = map(dy, task.queries);
      made.y = map(y, task.queries);
    }
    return made;
  }

  template <bool kPlain>
  void launch_of(Pointers pointers, cudaStream_t stream) const {
    const AttentionTask<S> task = this->bound(pointers);
    if (!this->is_gradient_) {
      if (is_wide_) {
        launch_forward<kPlain, 2>(task, pointers, stream);
      } else {
        launch_forward<kPlain, 1>(task, pointers, stream);
      }
      return;
    }
    Slopes<S> slopes = this->slopes(pointers);
    slopes.means = this->template workspace<float>(pointers);
    slopes.shifts = slopes.means + rows();
    const HeadMaps of = maps(task, slopes.dy, slopes.y);
    const auto blocks = [&](std::int64_t count) {
      return static_cast<unsigned>(this->heads() * blocks_of(count, kHeadTile));
    };
    pipelined_slope_of_queries<S, kPlain>
        <<<blocks(task.queries), 128, kOfQueries, stream>>>(task, slopes, of);
    check_launch("attention_gradient");
    pipelined_slope_of_keys<S, kPlain>
        <<<blocks(task.keys), 128, kOfKeys, stream>>>(task, slopes, of);
    check_launch("attention_gradient");
    if (slopes.dmask == nullptr) return;
    const std::int64_t tiles = task.mask_rows * blocks_of(task.masked_keys, kHeadTile);
    slope_of_mask_tile<S, MaskTiles>
        <<<static_cast<unsigned>(tiles * blocks_of(task.queries, kHeadTile)), 128, kOfMask,
           stream>>>(task, slopes);
    check_launch("attention_gradient");
  }

  template <bool kPlain, int kWarpgroups>
  void launch_forward(const AttentionTask<S>& task, Pointers pointers, cudaStream_t stream) const {
    using Blocks = ForwardBlocks<kWarpgroups>;
    const auto blocks =
        static_cast<unsigned>(this->heads() * blocks_of(task.queries, Blocks::kRows));
    pipelined_attention<S, kPlain, kWarpgroups>
        <<<blocks, Blocks::kThreads, kOfForward<kWarpgroups>, stream>>>(
            task, this->result(pointers), this->template out<float>(pointers, 1),
            this->template out<float>(pointers, 2), maps(task, {}, {}));
    check_launch("attention");
  }

  bool is_plain_, is_wide_;
};

template <class S>
std::unique_ptr<Kernel> make_pipelined_attention(const ir::Graph& graph, const ir::Node& node,
                                                 const Context& context) {
  if (!context.wgmma) return nullptr;
  auto made = std::make_unique<PipelinedAttention<S>>(graph, node, context);
  if (!made->prepare()) return nullptr;
  return made;
}

}  // namespace traingraph::cuda
