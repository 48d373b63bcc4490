// The gradient of batch norm over tensors with the channel innermost (batch_norm_rows.h).
#include "backends/cuda/normalization/batch_norm_rows.h"
#include "backends/cuda/normalization/prefetch.h"

namespace traingraph::cuda {
namespace {

// How the prologue relu_gradient(dy, result) obtains the sign of the result: there is no prologue;
// it reads the result; it reads the ReLU mask; or it recomputes the result from x, which trades
// memory traffic for arithmetic.
enum class Mask { none, read, bits, again };

// dy and x of kRows rows, zeros beyond the last. dy includes a prologue that reads.
template <class S, int kPack, int kRows, Mask kMask>
struct Pairs {
  Pack<S, kPack> dy[kRows] = {}, x[kRows] = {};

  __device__ Pairs(const Rows& plan, const Gradients<S>& a, std::int64_t row, int step,
                   std::int64_t channel) {
    Pack<S, kPack> result[kRows] = {};
    unsigned relu_mask[kRows] = {};
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      if (row + k * step >= plan.rows) break;
      const std::int64_t at = (row + k * step) * plan.channels + channel;
      dy[k] = load<kPack>(a.dy + at);
      x[k] = load<kPack>(a.x + at);
      if constexpr (kMask == Mask::read) result[k] = load<kPack>(a.result + at);
      if constexpr (kMask == Mask::bits)
        relu_mask[k] = relu_mask_in<kPack>(a.relu_mask[at / 8], at);
    }
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      if constexpr (kMask == Mask::read) apply_mask(dy[k], result[k]);
      if constexpr (kMask == Mask::bits) apply_relu_mask(dy[k], relu_mask[k]);
    }
  }
};

// The result of the forward op before ReLU, recomputed from x up to the rounding of its numbers.
template <class T>
__device__ T result_of(T x, T mean, T scale, T beta) {
  return (x - mean) * scale + beta;
}

template <class S, int kPack, Mask kMask>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce<S>)
    gradient_sums(const __grid_constant__ Rows plan, Gradients<S> a, Compute<S>* partial) {
  using T = Compute<S>;
  constexpr int kRows = 2;
  const Place<kPack> place(plan);
  T sum[kPack] = {}, products[kPack] = {};
  if (place.there) {
    T mean[kPack], inverse[kPack], scale[kPack] = {}, beta[kPack] = {};
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      const std::int64_t channel = place.channel + v;
      mean[v] = a.mean[channel];
      inverse[v] = a.inverse_deviation[channel];
      if constexpr (kMask == Mask::again) {
        scale[v] = a.gamma[channel] * inverse[v];
        beta[v] = a.beta[channel];
      }
    }
    for_each_tile<kRows>(plan, place.step, place.row, [&](std::int64_t row) {
      const Pairs<S, kPack, kRows, kMask> pairs(plan, a, row, place.step, place.channel);
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        auto dy = widen(pairs.dy[k]);
        const auto x = widen(pairs.x[k]);
#pragma unroll
        for (int v = 0; v < kPack; ++v) {
          if constexpr (kMask == Mask::again) {
            if (result_of(x.element[v], mean[v], scale[v], beta[v]) <= T(0)) dy.element[v] = 0;
          }
          sum[v] += dy.element[v];
          products[v] += product<S>(dy.element[v], x.element[v] - mean[v], inverse[v]);
        }
      }
    });
#pragma unroll
    for (int v = 0; v < kPack; ++v)
      products[v] = product_sum<S>(products[v], a.inverse_deviation[place.channel + v]);
  }
  put(plan, sum, products, partial);
}

// Sums of a gradient whose dy is the masked sum of dy and added. The sum is written for the second
// launch and for other nodes.
template <class S, int kPack, Mask kMask>
using DySumPrefetch = RowPrefetch<S, kPack, kMask == Mask::read ? 4 : 3, kMask == Mask::bits>;

template <class S, int kPack, Mask kMask>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce<S>)
    add_and_sum(const __grid_constant__ Rows plan, Gradients<S> a, Compute<S>* partial) {
  using T = Compute<S>;
  const Place<kPack> place(plan);
  const S* const sources[] = {a.dy, a.added, a.x, a.result};
  DySumPrefetch<S, kPack, kMask> rows(plan, place, sources, a.relu_mask);
  T sum[kPack] = {}, products[kPack] = {};
  if (place.there) {
    T mean[kPack], inverse[kPack], scale[kPack] = {}, beta[kPack] = {};
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      const std::int64_t channel = place.channel + v;
      mean[v] = a.mean[channel];
      inverse[v] = a.inverse_deviation[channel];
      if constexpr (kMask == Mask::again) {
        scale[v] = a.gamma[channel] * inverse[v];
        beta[v] = a.beta[channel];
      }
    }
    rows.for_each([&](std::int64_t at, const auto& packs, std::uint32_t relu_mask) {
      auto dy_sum = sum_of(packs[0], packs[1]);
      if constexpr (kMask == Mask::read) apply_mask(dy_sum, packs[3]);
      if constexpr (kMask == Mask::bits)
        apply_relu_mask(dy_sum, relu_mask_in<kPack>(relu_mask, at));
      auto dy = widen(dy_sum);
      const auto x = widen(packs[2]);
#pragma unroll
      for (int v = 0; v < kPack; ++v) {
        if constexpr (kMask == Mask::again) {
          if (result_of(x.element[v], mean[v], scale[v], beta[v]) <= T(0)) dy.element[v] = 0;
        }
        sum[v] += dy.element[v];
        products[v] += product<S>(dy.element[v], x.element[v] - mean[v], inverse[v]);
      }
      store(a.dy_sum + at, kMask == Mask::again ? narrow<S>(dy) : dy_sum);
    });
#pragma unroll
    for (int v = 0; v < kPack; ++v)
      products[v] = product_sum<S>(products[v], a.inverse_deviation[place.channel + v]);
  }
  put(plan, sum, products, partial);
}

template <class S, int kPack, Mask kMask>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce<S>)
    gradient_apply(const __grid_constant__ Rows plan, Gradients<S> a, const Compute<S>* partial) {
  using T = Compute<S>;
  constexpr int kRows = 2;
  const Place<kPack> place(plan);
  const auto pairs_at = [&](std::int64_t row) {
    return Pairs<S, kPack, kRows, kMask>(plan, a, row, place.step, place.channel);
  };
  LoadedTiles<kRows, decltype(pairs_at)> tiles(plan, place, pairs_at);
  const double* const sums = sums_of<T, kPack>(plan, partial);
  const auto* const numbers =
      per_channel<T, kPack, 5>(plan, [&](int c, std::int64_t channel, T* to) {
        const double* const sum = sums + c * 2;
        if (blockIdx.y == 0) {
          a.dbeta[channel] = static_cast<T>(sum[0]);
          a.dgamma[channel] = static_cast<T>(sum[1]);
        }
        put_slope<S>(sum, plan.rows, a.mean[channel], a.gamma[channel],
                     a.inverse_deviation[channel], to);
        if constexpr (kMask == Mask::again) to[4] = a.beta[channel];
      });
  if (!place.there) return;
  const Slopes<S, kPack> slopes(numbers, place.lane);
  T beta[kPack] = {};
#pragma unroll
  for (int v = 0; v < kPack; ++v) {
    if constexpr (kMask == Mask::again) beta[v] = numbers[place.lane * kPack + v][4];
  }
  tiles.for_each(plan, [&](std::int64_t row, const auto& pairs) {
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      if (row + k * place.step >= plan.rows) break;
      auto dy = widen(pairs.dy[k]);
      auto dx = widen(pairs.x[k]);
#pragma unroll
      for (int v = 0; v < kPack; ++v) {
        T& value = dx.element[v];
        if constexpr (kMask == Mask::again) {
          if (result_of(value, slopes.mean[v], slopes.scale[v], beta[v]) <= T(0)) dy.element[v] = 0;
        }
        value = slopes.dx(v, dy.element[v], value);
      }
      const std::int64_t at = (row + k * place.step) * plan.channels + place.channel;
      store(a.dx + at, narrow<S>(dx));
    }
  });
}

}  // namespace

template <class S>
void enqueue_rows(const Rows& plan, const Gradients<S>& a, Compute<S>* partial,
                  cudaStream_t stream) {
  with_pack<S>(plan, [&](auto pack) {
    constexpr int kPack = decltype(pack)::value;
    const auto enqueue = [&](auto mask) {
      constexpr Mask kMask = decltype(mask)::value;
      if (a.added != nullptr) {
        enqueue_sums(plan, DySumPrefetch<S, kPack, kMask>::kBytes, stream,
                     add_and_sum<S, kPack, kMask>, a, partial);
        return enqueue_apply(plan, 2, stream, gradient_apply<S, kPack, Mask::none>, a.with_dy_sum(),
                             partial);
      }
      enqueue_sums(plan, 0, stream, gradient_sums<S, kPack, kMask>, a, partial);
      enqueue_apply(plan, 2, stream, gradient_apply<S, kPack, kMask>, a, partial);
    };
    if constexpr (kHasReluMask<S, kPack>) {
      if (a.relu_mask != nullptr) return enqueue(std::integral_constant<Mask, Mask::bits>());
    }
    if constexpr (!kShort<S>) {  // 16-bit kernels are bound by arithmetic
      if (a.result != nullptr && a.beta != nullptr) {
        return enqueue(std::integral_constant<Mask, Mask::again>());
      }
    }
    if (a.result != nullptr) return enqueue(std::integral_constant<Mask, Mask::read>());
    enqueue(std::integral_constant<Mask, Mask::none>());
  });
}

#define TRAINGRAPH_ROWS(S) \
  template void enqueue_rows(const Rows&, const Gradients<S>&, Compute<S>*, cudaStream_t);
TRAINGRAPH_ROWS(float)
TRAINGRAPH_ROWS(double)
TRAINGRAPH_ROWS(__half)
TRAINGRAPH_ROWS(__nv_bfloat16)
#undef TRAINGRAPH_ROWS

}  // namespace traingraph::cuda
