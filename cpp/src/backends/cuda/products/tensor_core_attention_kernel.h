// Attention and its gradient on tensor cores, for heads of at most 256 features. Scores are never
// stored, every sum has a fixed order, and a score has the same bits in all kernels. Here is the
// choice of kernels and their launch. For .cu files only.
#pragma once

#include "backends/cuda/products/attention_forward.h"
#include "backends/cuda/products/attention_gradient.h"
#include "backends/cuda/products/attention_kernel.h"
#include "backends/cuda/products/tensor_core_attention.h"
#include "backends/cuda/products/warp_products.h"

namespace traingraph::cuda {

// Groups and columns per head size, the fastest of some on an H200.
template <class S, bool kFull, int kFeatures>
struct Tilings {
  static constexpr bool kSmall = kFeatures <= 32, kLarge = kFeatures > 128;
  static constexpr bool kWide = sizeof(S) > 2;
  template <int kGroups, int kColumns, int kBlocks = 1>
  using Of = Tiling<S, WarpProducts<S, kFull>, kFeatures, kGroups, kColumns, 4, kBlocks>;
  template <int kGroups, int kColumns>
  using OfKeys = Tiling<S, WarpProducts<S, kFull, true>, kFeatures, kGroups, kColumns>;
  static constexpr int kBlocks = kSmall ? (kFull ? 3 : 4) : 1;
  static constexpr bool kHeavy = kWide && kFeatures > 64;
  using Forward = Of<(kSmall || kLarge || (kHeavy && kFull) ? 1 : 2),
                     (kLarge ? (kWide ? 16 : 32) : (kHeavy || kFull ? 32 : 64)), kBlocks>;
  using Queries = Of<(kSmall || kLarge || kHeavy ? 1 : 2), (kHeavy ? 16 : 32), kBlocks>;
  static constexpr int kKeyColumns = kSmall && !kWide ? 64 : 32;
  using Keys = OfKeys<(kFeatures == 64 && (!kWide || kFull) ? 2 : 1),
                      (kHeavy || (kFull && !kSmall) ? 16 : kKeyColumns)>;
  using Mask = Of<1, 16>;
};

// A kernel with the shape of its blocks.
template <class F>
struct TiledKernel {
  F* kernel = nullptr;
  int rows = 0, columns = 0, threads = 0;
  std::size_t shared_bytes = 0;

  // `rows` and `tiles`: how many of the block's rows and of pairs of tiles are in shared memory.
  template <class Tiles>
  static TiledKernel of(F* kernel, int rows, int tiles) {
    return {kernel, Tiles::kRows, Tiles::kColumns, Tiles::kThreads,
            std::size_t(rows * Tiles::kRows + tiles * 2 * Tiles::kColumns) * Tiles::kPitch *
                    sizeof(typename Tiles::Element) +
                Tiles::Products::kAlignment};
  }
  // Whether the device has enough shared memory.
  bool prepare(std::size_t most) const {
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
    if (attributes.sharedSizeBytes + shared_bytes > most) return false;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          "cudaFuncSetAttribute");
    return true;
  }
  unsigned blocks(std::int64_t heads, std::int64_t of_rows) const {
    return static_cast<unsigned>(heads * ((of_rows + rows - 1) / rows));
  }
};

template <class S>
struct AttentionKernels {
  TiledKernel<void(const AttentionTask<S>, Rows<S>, float*, float*)> forward;
  TiledKernel<void(const AttentionTask<S>, const Slopes<S>)> queries, keys, mask;
  int features = 0;

  template <class T>
  static AttentionKernels of() {
    AttentionKernels k;
    k.forward =
        k.forward.template of<typename T::Forward>(attend_rows<S, typename T::Forward>, 1, 2);
    k.queries = k.queries.template of<typename T::Queries>(
        slope_of_query_rows<S, typename T::Queries>, 2, 2);
    k.keys = k.keys.template of<typename T::Keys>(slope_of_key_rows<S, typename T::Keys>, 2, 2);
    k.mask = k.mask.template of<typename T::Mask>(slope_of_mask_tile<S, typename T::Mask>, 2, 1);
    k.features = T::Forward::kFeatures;
    return k;
  }
  bool prepare(std::size_t most) const {
    return forward.prepare(most) && queries.prepare(most) && keys.prepare(most) &&
           mask.prepare(most);
  }
};

template <class S, bool kFull>
class TensorCoreAttention final : public AttentionKernel<S> {
 public:
  TensorCoreAttention(const ir::Graph& graph, const ir::Node& node)
      : AttentionKernel<S>(graph, node) {
    AttentionTask<S>& task = this->task_;
    task.has_packs = task.features % (16 / static_cast<int>(sizeof(S))) == 0;
    using Kernels = AttentionKernels<S>;
    if (task.features <= 32) {
      kernels_ = Kernels::template of<Tilings<S, kFull, 32>>();
    } else if (task.features <= 64) {
      kernels_ = Kernels::template of<Tilings<S, kFull, 64>>();
    } else if (task.features <= 128) {
      kernels_ = Kernels::template of<Tilings<S, kFull, 128>>();
    } else {
      kernels_ = Kernels::template of<Tilings<S, kFull, 256>>();
    }
  }
  bool prepare(std::size_t most) const {
    return this->task_.features <= kernels_.features && kernels_.prepare(most);
  }

  std::size_t workspace_bytes() const override {
    return this->is_gradient_
               ? static_cast<std::size_t>(this->heads() * this->task_.queries) * sizeof(float)
               : 0;
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    const AttentionTask<S> task = this->bound(pointers);
    const std::int64_t heads = this->heads();
    const auto& [forward, queries, keys, mask, features] = kernels_;
    if (!this->is_gradient_) {
      forward.kernel<<<forward.blocks(heads, task.queries), forward.threads, forward.shared_bytes,
                       stream>>>(task, this->result(pointers),
                                 this->template out<float>(pointers, 1),
                                 this->template out<float>(pointers, 2));
      check_launch("attention");
      return;
    }
    Slopes<S> slopes = this->slopes(pointers);
    slopes.means = this->template workspace<float>(pointers);
    queries.kernel<<<queries.blocks(heads, task.queries), queries.threads, queries.shared_bytes,
                     stream>>>(task, slopes);
    check_launch("attention_gradient");
    const dim3 blocks(keys.blocks(heads, task.keys),
                      static_cast<unsigned>((features + kMostResults - 1) / kMostResults));
    keys.kernel<<<blocks, keys.threads, keys.shared_bytes, stream>>>(task, slopes);
    check_launch("attention_gradient");
    if (slopes.dmask == nullptr) return;
    const std::int64_t tiles = (task.masked_keys + mask.columns - 1) / mask.columns;
    mask.kernel<<<mask.blocks(task.mask_rows * tiles, task.queries), mask.threads,
                  mask.shared_bytes, stream>>>(task, slopes);
    check_launch("attention_gradient");
  }

 private:
  AttentionKernels<S> kernels_;
};

template <class S, bool kFull>
std::unique_ptr<Kernel> make_tensor_core_attention(const ir::Graph& graph, const ir::Node& node,
                                                   const Context& context) {
  int most = 0;
  check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, context.device),
        "cudaDeviceGetAttribute");
  auto made = std::make_unique<TensorCoreAttention<S, kFull>>(graph, node);
  if (!made->prepare(static_cast<std::size_t>(most))) return nullptr;
  return made;
}

}  // namespace traingraph::cuda
