// Operands of batch norm and its gradient, and the functions that enqueue its kernels. For .cu
// files only.
#pragma once

#include <type_traits>

#include "backends/cuda/device/storage.h"
#include "backends/cuda/kernel/node_kernel.h"
#include "ir/epilogue.h"

namespace traingraph::cuda {

// Bits of an epilogue as a constant.
constexpr int kAdds = 1, kRelu = 2, kAddsNormalized = 4;

template <int kEpilogue, class T>
__device__ T apply_epilogue(T value, T added) {
  if constexpr ((kEpilogue & kAdds) != 0) value += added;
  if constexpr ((kEpilogue & kRelu) != 0) value = value < T(0) ? T(0) : value;
  return value;
}

template <class F>
void with_epilogue(int epilogue, F&& f) {
  if (epilogue == 0) f(std::integral_constant<int, 0>());
  if (epilogue == kAdds) f(std::integral_constant<int, kAdds>());
  if (epilogue == kRelu) f(std::integral_constant<int, kRelu>());
  if (epilogue == (kAdds | kRelu)) f(std::integral_constant<int, kAdds | kRelu>());
}

// The numbers that compute y from x in one channel: y = ((x - high) - low) scale + shift, or
// y = x scale + shift for 16-bit x. The mean has two parts, because its rounding would show in y if
// it is far from 0.
template <class T>
struct Coefficients {
  T high, low, scale, shift;

  __device__ T y(T x) const { return ((x - high) - low) * scale + shift; }
};

// x (N, C, S), gamma (C), beta (C) [, added (N, C, S) [, its coefficients (C, 4)]] [, given (C, 4)]
// → [y (N, C, S)] [, mean (C), inverse_deviation (C), variance (C) [, ReLU mask of y]
// [, kept (C, 4)]]. With given coefficients the statistics are neither computed nor written.
template <class S>
struct Normalized {
  const S *x, *added;
  const Compute<S>*gamma, *beta;
  S* y;
  Compute<S>*mean, *inverse_deviation, *variance;
  std::uint8_t* relu_mask;
  const Coefficients<Compute<S>>* of_added;  // normalize `added`
  const Coefficients<Compute<S>>* given;
  Coefficients<Compute<S>>* kept;
};

// The pivot that a channel's sums are taken about, so that a mean far from 0 costs no digits. It is
// the median of three elements, because an outlier would cost digits too.
template <class T>
__device__ T pivot_of(T a, T b, T c) {
  const T low = a < b ? a : b, high = a < b ? b : a;
  return c < low ? low : high < c ? high : c;
}

// Whether squares overflowed in float32. Their sum is then computed again in float64.
template <class T>
__device__ bool too_large(double squares) {
  return sizeof(T) == 4 && squares == infinity<double>();
}

template <class T>
__device__ void add_square(T x, T shift, double& sum, double& squares) {
  const double difference = static_cast<double>(x) - static_cast<double>(shift);
  sum += difference;
  squares += difference * difference;
}

// The statistics of a channel, from sum and sum of squares of its elements minus `shift`.
struct Moments {
  double mean, variance, inverse_deviation;

  __device__ Moments(const double* sums, double shift, std::int64_t count, double epsilon) {
    const double distance = sums[0] / static_cast<double>(count);
    const double spread = sums[1] / static_cast<double>(count) - distance * distance;
    mean = shift + distance;
    variance = spread < 0 ? 0 : spread;
    inverse_deviation = 1 / ::sqrt(variance + epsilon);
  }
  template <class S>
  __device__ void write(const Normalized<S>& a, std::int64_t channel,
                        const Coefficients<Compute<S>>& coefficients) const {
    a.mean[channel] = static_cast<Compute<S>>(mean);
    a.inverse_deviation[channel] = static_cast<Compute<S>>(inverse_deviation);
    a.variance[channel] = static_cast<Compute<S>>(variance);
    if (a.kept != nullptr) a.kept[channel] = coefficients;
  }
  // The coefficients of a channel; `short_x`: for 16-bit x.
  template <class T>
  __device__ Coefficients<T> coefficients(T gamma, T beta, bool short_x) const {
    Coefficients<T> result;
    result.high = static_cast<T>(mean);
    result.low = static_cast<T>(mean - static_cast<double>(result.high));
    result.scale = static_cast<T>(inverse_deviation * static_cast<double>(gamma));
    result.shift =
        short_x
            ? static_cast<T>(static_cast<double>(beta) - mean * static_cast<double>(result.scale))
            : beta;
    return result;
  }
};

// dy (N, C, S), x (N, C, S), mean (C), inverse_deviation (C), gamma (C) [, added (N, C, S)]
// [, result (N, C, S) or its ReLU mask [, beta (C)]] →
// dx (N, C, S), dgamma (C), dbeta (C) [, dy_sum (N, C, S)], all overwritten.
// With z = (x - mean) inverse_deviation and M = N S elements per channel:
//   dbeta = Σ dy, dgamma = Σ dy z, dx = gamma inverse_deviation (dy - dbeta / M - z dgamma / M)
// With a result, dy is masked where the result is not above 0. With beta too, the result is
// relu(gamma z + beta), which need not be read. With `added`, the gradient uses dy_sum, the masked
// sum of dy and added.
template <class S>
struct Gradients {
  const S *dy, *x, *added, *result;
  const std::uint8_t* relu_mask;
  const Compute<S>*mean, *inverse_deviation, *gamma, *beta;
  S* dx;
  Compute<S>*dgamma, *dbeta;
  S* dy_sum;

  // The operands of a kernel that runs after dy_sum was written.
  Gradients with_dy_sum() const {
    Gradients then = *this;
    then.dy = dy_sum;
    then.added = then.result = nullptr;
    then.relu_mask = nullptr;
    then.beta = nullptr;
    return then;
  }
};

// The positions of a node's operands.
class BatchNormOperands {
 public:
  BatchNormOperands(const ir::Graph& graph, const ir::Node& node);

  template <class S>
  Normalized<S> normalized(Pointers p) const {
    using T = Compute<S>;
    const S* const added = (epilogue & kAdds) != 0 ? in<S>(p, 3) : nullptr;
    return {in<S>(p, 0),
            added,
            in<T>(p, 1),
            in<T>(p, 2),
            out<S>(p, y_),
            out<T>(p, mean_),
            out<T>(p, mean_ + 1),
            out<T>(p, mean_ + 2),
            relu_mask_ ? out<std::uint8_t>(p, 4) : nullptr,
            in<Coefficients<T>>(p, of_added_),
            in<Coefficients<T>>(p, given_),
            out<Coefficients<T>>(p, kept_)};
  }
  template <class S>
  Gradients<S> gradients(Pointers p) const {
    using T = Compute<S>;
    return {in<S>(p, dy_),
            in<S>(p, 1),
            in<S>(p, added_),
            relu_mask_ ? nullptr : in<S>(p, result_),
            relu_mask_ ? in<std::uint8_t>(p, result_) : nullptr,
            in<T>(p, 2),
            in<T>(p, 3),
            in<T>(p, 4),
            in<T>(p, beta_),
            out<S>(p, 0),
            out<T>(p, 1),
            out<T>(p, 2),
            added_ < inputs_.size() ? out<S>(p, 3) : nullptr};
  }

  // How many rows count; null: all.
  const std::int64_t* rows(Pointers p) const { return in<std::int64_t>(p, rows_); }

  bool gradient = false;
  int epilogue = 0;

 private:
  // null without such an operand
  template <class T>
  const T* in(Pointers pointers, std::size_t i) const {
    return i < inputs_.size() ? reinterpret_cast<const T*>(pointers[inputs_[i]]) : nullptr;
  }
  template <class T>
  T* out(Pointers pointers, std::size_t i) const {
    return i < outputs_.size() ? reinterpret_cast<T*>(pointers[outputs_[i]]) : nullptr;
  }

  std::vector<ir::ValueId> inputs_, outputs_;
  bool relu_mask_ = false;
  // Positions of a gradient's prologue operands among the inputs.
  static constexpr std::size_t kNowhere = 16;
  std::size_t dy_ = 0, added_ = kNowhere, result_ = kNowhere, beta_ = kNowhere;
  std::size_t rows_ = kNowhere;
  // Positions of a forward op's coefficients: its own among inputs or results, and those of
  // `added`.
  std::size_t given_ = kNowhere, kept_ = kNowhere, of_added_ = kNowhere;
  // Positions of a forward op's results.
  std::size_t y_ = 0, mean_ = 1;
};

// dy_sum = dy + added, 0 where the result is not above 0, for so many elements.
template <class T>
void enqueue_dy_sum(std::int64_t elements, const Gradients<T>& a, cudaStream_t stream);

// A matrix (N, C) of few rows: one launch, in which a block reads its columns twice.
struct Columns {
  std::int64_t channels, count;  // C, N
  double epsilon;
  const std::int64_t* rows;  // how many of them count, the first ones; null: all

  __device__ std::int64_t counted() const { return rows == nullptr ? count : *rows; }
};

template <class T>
void enqueue_columns(const Columns& columns, const Normalized<T>& a, int epilogue,
                     cudaStream_t stream);
template <class T>
void enqueue_columns(const Columns& columns, const Gradients<T>& a, cudaStream_t stream);

// The gradient of one or two values per channel, which nearly cancels: one launch.
struct FewValues {
  std::int64_t channels, count, run;  // C, N S, S
  double epsilon;
};

template <class S>
void enqueue_few_values(const FewValues& few, const Gradients<S>& a, cudaStream_t stream);

// A matrix (rows, channels) of any number of rows: two launches.
struct Rows {
  std::int64_t rows, channels;
  double epsilon;
  bool packs;                      // whether threads read 16 bytes at once
  int lanes = 1;                   // neighbouring threads along a row
  std::int64_t groups, parts = 1;  // of channels and of rows, one block each
  int cluster = 1;                 // parts that are added before they are written
  std::int64_t partial;            // numbers that the first launch leaves to the second
  std::int64_t blocks;             // resident on the device at once

  Rows() = default;
  // For elements of `bytes`, on a device with so many multiprocessors.
  Rows(std::int64_t rows, std::int64_t channels, std::size_t bytes, double epsilon,
       int multiprocessors, bool clusters);
};

template <class S>
void enqueue_rows(const Rows& plan, const Normalized<S>& a, int epilogue, Compute<S>* partial,
                  cudaStream_t stream);
template <class S>
void enqueue_rows(const Rows& plan, const Gradients<S>& a, Compute<S>* partial,
                  cudaStream_t stream);

}  // namespace traingraph::cuda
