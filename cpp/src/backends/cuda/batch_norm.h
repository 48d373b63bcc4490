#pragma once

#include <type_traits>

#include "backends/cuda/node_kernel.h"
#include "backends/cuda/storage.h"
#include "ir/ending.h"

// Operands of batch norm and its gradient, and the kernels over matrices. For .cu files only.
namespace traingraph::cuda {

// Bits of an ending as a constant.
constexpr int kAdds = 1, kRelu = 2, kAddsNormalized = 4;

template <int kEnding, class T>
__device__ T ended(T value, T added) {
  if constexpr ((kEnding & kAdds) != 0) value += added;
  if constexpr ((kEnding & kRelu) != 0) value = value < T(0) ? T(0) : value;
  return value;
}

template <class F>
void with_ending(int ending, F&& f) {
  if (ending == 0) f(std::integral_constant<int, 0>());
  if (ending == kAdds) f(std::integral_constant<int, kAdds>());
  if (ending == kRelu) f(std::integral_constant<int, kRelu>());
  if (ending == (kAdds | kRelu)) f(std::integral_constant<int, kAdds | kRelu>());
}

// What y is worked out from x with, of one channel: y = ((x - high) - low) scale + shift, or
// x scale + shift where x has 16 bits. The mean is in two pieces: its rounding would show in y
// where it is far from 0.
template <class T>
struct Coefficients {
  T high, low, scale, shift;

  __device__ T y(T x) const { return ((x - high) - low) * scale + shift; }
};

// x (N, C, S), gamma (C), beta (C) [, added (N, C, S) [, its coefficients (C, 4)]] [, given (C, 4)]
// → [y (N, C, S)] [, mean (C), inverse_deviation (C), variance (C) [, signs of y] [, kept (C, 4)]].
// With given coefficients the statistics are neither found nor written.
template <class S>
struct Normalized {
  const S *x, *added;
  const Compute<S>*gamma, *beta;
  S* y;
  Compute<S>*mean, *inverse_deviation, *variance;
  std::uint8_t* signs;
  const Coefficients<Compute<S>>* of_added;  // what is added is normalized with them
  const Coefficients<Compute<S>>* given;
  Coefficients<Compute<S>>* kept;
};

// What a channel's sums are taken about: so a mean far from 0 costs no digits. It is the middle one
// of three elements, because one far from all others would cost them too.
template <class T>
__device__ T pivot_of(T a, T b, T c) {
  const T low = a < b ? a : b, high = a < b ? b : a;
  return c < low ? low : high < c ? high : c;
}

// Whether squares of float32 were too large for their sum, which is then made again in float64.
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

// Of one channel, from sum and sum of squares of its elements minus `shift`.
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
  // The coefficients of a channel; `short_x`: for x of 16 bits.
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
// [, result (N, C, S) or its signs [, beta (C)]] →
// dx (N, C, S), dgamma (C), dbeta (C) [, joined (N, C, S)], all overwritten. With
// z = (x - mean) inverse_deviation and M = N S elements per channel:
//   dbeta = Σ dy, dgamma = Σ dy z, dx = gamma inverse_deviation (dy - dbeta / M - z dgamma / M)
// With a result, dy counts where it is above 0 only; with beta too, the result is relu(gamma z +
// beta) and need not be read. With `added`, dy is the sum of both; what then counts is `joined`.
template <class S>
struct Gradients {
  const S *dy, *x, *added, *result;
  const std::uint8_t* signs;
  const Compute<S>*mean, *inverse_deviation, *gamma, *beta;
  S* dx;
  Compute<S>*dgamma, *dbeta;
  S* joined;

  // The same once `joined` is written.
  Gradients after_joining() const {
    Gradients then = *this;
    then.dy = joined;
    then.added = then.result = nullptr;
    then.signs = nullptr;
    then.beta = nullptr;
    return then;
  }
};

// Which value is which operand.
class BatchNormOperands {
 public:
  BatchNormOperands(const ir::Graph& graph, const ir::Node& node);

  template <class S>
  Normalized<S> normalized(Pointers p) const {
    using T = Compute<S>;
    const S* const added = (ending & kAdds) != 0 ? in<S>(p, 3) : nullptr;
    return {in<S>(p, 0),
            added,
            in<T>(p, 1),
            in<T>(p, 2),
            out<S>(p, y_),
            out<T>(p, mean_),
            out<T>(p, mean_ + 1),
            out<T>(p, mean_ + 2),
            signs_ ? out<std::uint8_t>(p, 4) : nullptr,
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
            signs_ ? nullptr : in<S>(p, result_),
            signs_ ? in<std::uint8_t>(p, result_) : nullptr,
            in<T>(p, 2),
            in<T>(p, 3),
            in<T>(p, 4),
            in<T>(p, beta_),
            out<S>(p, 0),
            out<T>(p, 1),
            out<T>(p, 2),
            added_ < inputs_.size() ? out<S>(p, 3) : nullptr};
  }

  bool gradient = false;
  int ending = 0;

 private:
  // null where there is no such operand
  template <class T>
  const T* in(Pointers pointers, std::size_t i) const {
    return i < inputs_.size() ? reinterpret_cast<const T*>(pointers[inputs_[i]]) : nullptr;
  }
  template <class T>
  T* out(Pointers pointers, std::size_t i) const {
    return i < outputs_.size() ? reinterpret_cast<T*>(pointers[outputs_[i]]) : nullptr;
  }

  std::vector<ir::ValueId> inputs_, outputs_;
  bool signs_ = false;
  // Places among the inputs of what a gradient begins with.
  static constexpr std::size_t kNowhere = 16;
  std::size_t dy_ = 0, added_ = kNowhere, result_ = kNowhere, beta_ = kNowhere;
  // Of a forward's coefficients: its own among the inputs or the results, and what is added's.
  std::size_t given_ = kNowhere, kept_ = kNowhere, of_added_ = kNowhere;
  // Of a forward's results.
  std::size_t y_ = 0, mean_ = 1;
};

// joined = dy + added, 0 where the result is not above 0: `elements` of them.
template <class T>
void enqueue_join(std::int64_t elements, const Gradients<T>& a, cudaStream_t stream);

// A matrix (N, C) of few rows: one launch, in which a block reads its columns twice.
struct Columns {
  std::int64_t channels, count;  // C, N
  double epsilon;
};

template <class T>
void enqueue_columns(const Columns& columns, const Normalized<T>& a, int ending,
                     cudaStream_t stream);
template <class T>
void enqueue_columns(const Columns& columns, const Gradients<T>& a, cudaStream_t stream);

// The gradient of one or two values per channel, of which little or nothing is left: one launch.
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
  int lanes = 1;                   // threads beside each other along a row
  std::int64_t groups, parts = 1;  // of channels and of rows, a block each
  int cluster = 1;                 // parts that are added before they are written
  std::int64_t partial;            // numbers between the launches
  std::int64_t blocks;             // that the device has room for

  Rows() = default;
  // For elements of `bytes`, on a device of so many multiprocessors.
  Rows(std::int64_t rows, std::int64_t channels, std::size_t bytes, double epsilon,
       int multiprocessors, bool clusters);
};

template <class S>
void enqueue_rows(const Rows& plan, const Normalized<S>& a, int ending, Compute<S>* partial,
                  cudaStream_t stream);
template <class S>
void enqueue_rows(const Rows& plan, const Gradients<S>& a, Compute<S>* partial,
                  cudaStream_t stream);

}  // namespace traingraph::cuda
