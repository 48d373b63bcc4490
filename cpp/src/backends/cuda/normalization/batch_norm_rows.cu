// Batch normalization of tensors with the channel innermost (batch_norm_rows.h).
#include "backends/cuda/normalization/batch_norm_rows.h"

namespace traingraph::cuda {
namespace {

// Pivots of kPack neighbouring channels from `channel` on.
template <int kPack, class S>
__device__ Pack<Compute<S>, kPack> pivots(const Rows& plan, const S* x, std::int64_t channel) {
  const auto at = [&](std::int64_t row) {
    return widen(load<kPack>(x + row * plan.channels + channel));
  };
  auto result = at(0);
  const auto middle = at(plan.rows / 2), last = at(plan.rows - 1);
#pragma unroll
  for (int v = 0; v < kPack; ++v) {
    result.element[v] = pivot_of(result.element[v], middle.element[v], last.element[v]);
  }
  return result;
}

// If squares overflowed, the block sums those of its channels again.
template <class S>
__device__ void add_again(const Rows& plan, int channels, const S* x, double* sums) {
  for (int c = 0; c < channels; ++c) {
    if (!too_large<Compute<S>>(sums[c * 2 + 1])) continue;
    const S* const of = x + static_cast<std::int64_t>(blockIdx.x) * channels + c;
    const auto shift = pivots<1>(plan, of, 0).element[0];
    double sum = 0, squares = 0;
    for (std::int64_t row = threadIdx.x; row < plan.rows; row += kThreads) {
      add_square(widen(of[row * plan.channels]), shift, sum, squares);
    }
    sum = combine<kThreads>(sum, Sum());
    squares = combine<kThreads>(squares, Sum());
    if (threadIdx.x == 0) {
      sums[c * 2] = sum;
      sums[c * 2 + 1] = squares;
    }
  }
  __syncthreads();
}

// The sums of the block's channels.
template <class S, int kPack>
__device__ const double* moments_of(const Rows& plan, const S* x, const Compute<S>* partial) {
  double* const sums = sums_of<Compute<S>, kPack>(plan, partial);
  const int channels = plan.lanes * kPack, c = static_cast<int>(threadIdx.x);
  const bool again = c < channels && too_large<Compute<S>>(sums[c * 2 + 1]);
  if (__syncthreads_or(again) != 0) add_again(plan, channels, x, sums);
  return sums;
}

// Sum and sum of squares of x minus the channel's pivot.
template <class S, int kPack>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce<S>)
    moments(const __grid_constant__ Rows plan, const S* x, Compute<S>* partial) {
  using T = Compute<S>;
  constexpr int kRows = 4;
  const Place<kPack> place(plan);
  T sum[kPack] = {}, squares[kPack] = {};
  if (place.there) {
    const auto shift = pivots<kPack>(plan, x, place.channel);
    const auto none = narrow<S>(shift);
    for_each_tile<kRows>(plan, place.step, place.row, [&](std::int64_t row) {
      Pack<S, kPack> loaded[kRows];
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        const std::int64_t at = row + k * place.step;
        loaded[k] = at < plan.rows ? load<kPack>(x + at * plan.channels + place.channel) : none;
      }
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        const auto wide = widen(loaded[k]);
#pragma unroll
        for (int v = 0; v < kPack; ++v) {
          const T difference = wide.element[v] - shift.element[v];
          sum[v] += difference;
          squares[v] += difference * difference;
        }
      }
    });
  }
  put(plan, sum, squares, partial);
}

// Rows that a thread of `normalize` processes at once, limited by registers.
constexpr int rows_at_once(int epilogue) { return (epilogue & kAdds) != 0 ? 2 : 4; }

// x and `added` of kRows rows, zeros beyond the last.
template <class S, int kPack, int kRows, bool kAdded>
struct Given {
  Pack<S, kPack> x[kRows] = {}, added[kRows] = {};

  __device__ Given(const Rows& plan, const Normalized<S>& a, std::int64_t row, int step,
                   std::int64_t channel) {
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      const std::int64_t at = (row + k * step) * plan.channels + channel;
      if (row + k * step >= plan.rows) break;
      x[k] = load<kPack>(a.x + at);
      if constexpr (kAdded) added[k] = load<kPack>(a.added + at);
    }
  }
};

template <class S>
__device__ Compute<S> normalized(Compute<S> x, const Coefficients<Compute<S>>& of) {
  return kShort<S> ? x * of.scale + of.shift : of.y(x);
}

// The coefficients of a channel from its sums. The first of the blocks that compute them writes
// them.
template <class S>
__device__ Coefficients<Compute<S>> found_coefficients(const Rows& plan, const Normalized<S>& a,
                                                       const double* sums, std::int64_t channel) {
  const Compute<S> shift = pivots<1>(plan, a.x, channel).element[0];
  const Moments found(sums, static_cast<double>(shift), plan.rows, plan.epsilon);
  const auto result = found.coefficients(a.gamma[channel], a.beta[channel], kShort<S>);
  if (blockIdx.y == 0) found.write(a, channel, result);
  return result;
}

// Writes the statistics in the form without y.
template <class S, int kPack>
__global__ void __launch_bounds__(kThreads)
    write_statistics(const __grid_constant__ Rows plan, Normalized<S> a,
                     const Compute<S>* partial) {
  const double* const sums = moments_of<S, kPack>(plan, a.x, partial);
  const int c = static_cast<int>(threadIdx.x), channels = plan.lanes * kPack;
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * channels + c;
  if (c < channels && channel < plan.channels) {
    static_cast<void>(found_coefficients(plan, a, sums + c * 2, channel));
  }
}

template <class S, int kPack, int kEpilogue>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce<S>)
    normalize(const __grid_constant__ Rows plan, Normalized<S> a, const Compute<S>* partial) {
  using T = Compute<S>;
  constexpr int kRows = rows_at_once(kEpilogue);
  constexpr bool kAdded = (kEpilogue & kAdds) != 0;
  const Place<kPack> place(plan);
  const auto given_at = [&](std::int64_t row) {
    return Given<S, kPack, kRows, kAdded>(plan, a, row, place.step, place.channel);
  };
  LoadedTiles<kRows, decltype(given_at)> tiles(plan, place, given_at);
  const double* const sums =
      a.given == nullptr ? moments_of<S, kPack>(plan, a.x, partial) : nullptr;
  const auto* const numbers =
      per_channel<T, kPack, 4>(plan, [&](int c, std::int64_t channel, T* to) {
        const Coefficients<T> of =
            sums == nullptr ? a.given[channel] : found_coefficients(plan, a, sums + c * 2, channel);
        to[0] = of.high;
        to[1] = of.low;
        to[2] = of.scale;
        to[3] = of.shift;
      });
  if (!place.there) return;
  Coefficients<T> of[kPack];
#pragma unroll
  for (int v = 0; v < kPack; ++v) {
    const T* const four = numbers[place.lane * kPack + v];
    of[v] = {four[0], four[1], four[2], four[3]};
  }
  [[maybe_unused]] Coefficients<T> of_added[kPack];
  if constexpr ((kEpilogue & kAddsNormalized) != 0) {
#pragma unroll
    for (int v = 0; v < kPack; ++v) of_added[v] = a.of_added[place.channel + v];
  }
  tiles.for_each(plan, [&](std::int64_t row, const auto& given) {
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      const std::int64_t at = (row + k * place.step) * plan.channels + place.channel;
      if (row + k * place.step >= plan.rows) break;
      auto wide = widen(given.x[k]);
      auto added = widen(given.added[k]);
#pragma unroll
      for (int v = 0; v < kPack; ++v) {
        T& value = wide.element[v];
        value = normalized<S>(value, of[v]);
        if constexpr ((kEpilogue & kAddsNormalized) != 0) {
          added.element[v] = normalized<S>(added.element[v], of_added[v]);
        }
        if constexpr (kAdded) value += added.element[v];
      }
      auto result = narrow<S>(wide);
      if constexpr ((kEpilogue & kRelu) != 0) {
        apply_relu(result);
        if constexpr (kHasReluMask<S, kPack>) {
          if (a.relu_mask != nullptr) store_relu_mask(a.relu_mask, at, result);
        }
      }
      store(a.y + at, result);
    }
  });
}

}  // namespace

Rows::Rows(std::int64_t rows_in, std::int64_t channels_in, std::size_t bytes, double epsilon_in,
           int multiprocessors, bool clusters)
    : rows(rows_in), channels(channels_in), epsilon(epsilon_in) {
  const int elements_of_pack = 16 / static_cast<int>(bytes);
  packs = channels % elements_of_pack == 0;
  blocks = multiprocessors * (bytes == 2 ? kBlocksAtOnce<__half> : kBlocksAtOnce<float>);
  // Where channels allow, a row's share of a block is one line of 128 bytes.
  const int pack = packs ? elements_of_pack : 1;
  const int most = packs ? 8 : kMostLanes;
  while (lanes < most && static_cast<std::int64_t>(lanes) * pack < channels) lanes *= 2;
  groups = (channels + static_cast<std::int64_t>(lanes) * pack - 1) / (lanes * pack);
  const std::int64_t tile = static_cast<std::int64_t>(kThreads / lanes) * 4;
  parts = std::clamp<std::int64_t>(blocks / std::max<std::int64_t>(1, groups), 1,
                                   std::max<std::int64_t>(1, (rows + tile - 1) / tile));
  // Parts that do not fill a cluster are dropped; these are few.
  while (clusters && cluster < 8 && parts % (cluster * 2) * 8 <= parts) cluster *= 2;
  parts = parts / cluster * cluster;
  partial = groups * (parts / cluster) * lanes * pack * 2;
}

template <class S>
void enqueue_rows(const Rows& plan, const Normalized<S>& a, int epilogue, Compute<S>* partial,
                  cudaStream_t stream) {
  with_pack<S>(plan, [&](auto pack) {
    constexpr int kPack = decltype(pack)::value;
    if (a.given == nullptr) enqueue_sums(plan, 0, stream, moments<S, kPack>, a.x, partial);
    if (a.y == nullptr) {
      write_statistics<S, kPack>
          <<<static_cast<unsigned>(plan.groups), kThreads, 0, stream>>>(plan, a, partial);
      return;
    }
    const auto apply = [&](auto bits) {
      constexpr int kEpilogue = decltype(bits)::value;
      enqueue_apply(plan, rows_at_once(kEpilogue), stream, normalize<S, kPack, kEpilogue>, a,
                    partial);
    };
    if constexpr (kHasReluMask<S, kPack>) {  // implies an epilogue with relu
      constexpr int kResidualPair = kAdds | kRelu | kAddsNormalized;
      if (a.of_added != nullptr) return apply(std::integral_constant<int, kResidualPair>());
    }
    with_epilogue(epilogue, apply);
  });
}

#define TRAINGRAPH_ROWS(S) \
  template void enqueue_rows(const Rows&, const Normalized<S>&, int, Compute<S>*, cudaStream_t);
TRAINGRAPH_ROWS(float)
TRAINGRAPH_ROWS(double)
TRAINGRAPH_ROWS(__half)
TRAINGRAPH_ROWS(__nv_bfloat16)
#undef TRAINGRAPH_ROWS

}  // namespace traingraph::cuda
