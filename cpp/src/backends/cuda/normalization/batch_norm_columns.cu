// Batch norm over matrices (N, C) of few rows. Neighbouring threads take neighbouring channels, and
// a block sums its channels before it writes them.
#include "backends/cuda/device/device.h"
#include "backends/cuda/normalization/batch_norm.h"

namespace traingraph::cuda {
namespace {

constexpr int kColumns = 32, kRows = 32;

struct Pair {
  double a, b;
};

// Adds one pair per row of the block's threads; every thread receives its column's sums.
__device__ Pair sum_rows(Pair mine, int row, int column) {
  __shared__ Pair sums[kRows][kColumns];
  sums[row][column] = mine;
  for (int half = kRows / 2; half > 0; half /= 2) {
    __syncthreads();
    if (row < half) {
      sums[row][column].a += sums[row + half][column].a;
      sums[row][column].b += sums[row + half][column].b;
    }
  }
  __syncthreads();
  return sums[0][column];
}

template <class T, int kEpilogue>
__global__ void __launch_bounds__(kColumns* kRows) forward(Columns plan, Normalized<T> a) {
  const int column = static_cast<int>(threadIdx.x) % kColumns;
  const int row = static_cast<int>(threadIdx.x) / kColumns;
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kColumns + column;
  const bool there = c < plan.channels;
  const std::int64_t counted = plan.counted();
  Pair sum = {0, 0};
  const T shift = there ? a.x[c] : T(0);
  if (there && a.given == nullptr) {
#pragma unroll 4
    for (std::int64_t n = row; n < counted; n += kRows) {
      const double difference = static_cast<double>(a.x[n * plan.channels + c] - shift);
      sum.a += difference;
      sum.b += difference * difference;
    }
    if (too_large<T>(sum.b)) {
      sum = {0, 0};
      for (std::int64_t n = row; n < counted; n += kRows) {
        add_square(a.x[n * plan.channels + c], shift, sum.a, sum.b);
      }
    }
  }
  sum = sum_rows(sum, row, column);
  if (!there) return;
  Coefficients<T> of;
  if (a.given != nullptr) {
    of = a.given[c];
  } else {
    const double sums[] = {sum.a, sum.b};
    const Moments found(sums, static_cast<double>(shift), counted, plan.epsilon);
    of = found.coefficients(a.gamma[c], a.beta[c], false);
    if (row == 0) found.write(a, c, of);
  }
#pragma unroll 4
  for (std::int64_t n = row; n < plan.count; n += kRows) {
    const std::int64_t at = n * plan.channels + c;
    const T added = (kEpilogue & kAdds) != 0 ? a.added[at] : T(0);
    a.y[at] = apply_epilogue<kEpilogue>(of.y(a.x[at]), added);
  }
}

template <class T, bool kMasked>
__global__ void __launch_bounds__(kColumns* kRows) gradient(Columns plan, Gradients<T> a) {
  const int column = static_cast<int>(threadIdx.x) % kColumns;
  const int row = static_cast<int>(threadIdx.x) / kColumns;
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kColumns + column;
  const bool there = c < plan.channels;
  const T mean = there ? a.mean[c] : T(0);
  const T inverse_deviation = there ? a.inverse_deviation[c] : T(0);
  auto dy_at = [&](std::int64_t at) { return kMasked && a.result[at] <= T(0) ? T(0) : a.dy[at]; };
  const std::int64_t counted = plan.counted();
  Pair sum = {0, 0};
  if (there) {
#pragma unroll 4
    for (std::int64_t n = row; n < counted; n += kRows) {
      const std::int64_t at = n * plan.channels + c;
      const T dy = dy_at(at);
      sum.a += static_cast<double>(dy);
      sum.b += static_cast<double>(dy * ((a.x[at] - mean) * inverse_deviation));
    }
  }
  sum = sum_rows(sum, row, column);
  if (!there) return;
  if (row == 0) {
    a.dbeta[c] = static_cast<T>(sum.a);
    a.dgamma[c] = static_cast<T>(sum.b);
  }
  const T scale = a.gamma[c] * inverse_deviation;
  const T dbeta = static_cast<T>(sum.a / static_cast<double>(counted));
  const T dgamma = static_cast<T>(sum.b / static_cast<double>(counted));
#pragma unroll 4
  for (std::int64_t n = row; n < plan.count; n += kRows) {
    const std::int64_t at = n * plan.channels + c;
    const T z = (a.x[at] - mean) * inverse_deviation;
    a.dx[at] = n < counted ? scale * (dy_at(at) - (dbeta + z * dgamma)) : T(0);
  }
}

}  // namespace

template <class T>
void enqueue_columns(const Columns& columns, const Normalized<T>& a, int epilogue,
                     cudaStream_t stream) {
  const unsigned blocks = blocks_for(columns.channels, kColumns);
  with_epilogue(epilogue, [&](auto bits) {
    forward<T, decltype(bits)::value><<<blocks, kColumns * kRows, 0, stream>>>(columns, a);
  });
}

template <class T>
void enqueue_columns(const Columns& columns, const Gradients<T>& a, cudaStream_t stream) {
  const unsigned blocks = blocks_for(columns.channels, kColumns);
  auto* const kernel = a.result != nullptr ? gradient<T, true> : gradient<T, false>;
  kernel<<<blocks, kColumns * kRows, 0, stream>>>(columns, a);
}

template void enqueue_columns(const Columns&, const Normalized<float>&, int, cudaStream_t);
template void enqueue_columns(const Columns&, const Normalized<double>&, int, cudaStream_t);
template void enqueue_columns(const Columns&, const Gradients<float>&, cudaStream_t);
template void enqueue_columns(const Columns&, const Gradients<double>&, cudaStream_t);

}  // namespace traingraph::cuda
