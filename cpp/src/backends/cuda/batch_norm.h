#pragma once

#include <type_traits>

#include "backends/cuda/node_kernel.h"
#include "ir/ending.h"

// Operands of batch norm and its gradient, and the kernels over matrices (N, C). For .cu files
// only.
namespace traingraph::cuda {

// Bits of an ending as a constant.
constexpr int kAdds = 1, kRelu = 2;

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

// x (N, C, S), gamma (C), beta (C) [, added (N, C, S)] →
// y (N, C, S), mean (C), inverse_deviation (C), variance (C).
template <class T>
struct Normalized {
  const T *x, *gamma, *beta, *added;
  T *y, *mean, *inverse_deviation, *variance;
};

// dy (N, C, S), x (N, C, S), mean (C), inverse_deviation (C), gamma (C) [, result (N, C, S)] →
// dx (N, C, S), dgamma (C), dbeta (C), all overwritten. With z = (x - mean) inverse_deviation and
// M = N S elements per channel:
//   dbeta = Σ dy, dgamma = Σ dy z, dx = gamma inverse_deviation (dy - dbeta / M - z dgamma / M)
// With a result, dy counts where it is above 0 only.
template <class T>
struct Gradients {
  const T *dy, *x, *mean, *inverse_deviation, *gamma, *result;
  T *dx, *dgamma, *dbeta;
};

// Which value is which operand.
class BatchNormOperands {
 public:
  BatchNormOperands(const ir::Graph& graph, const ir::Node& node);

  template <class T>
  Normalized<T> normalized(Pointers p) const {
    return {in<T>(p, 0),  in<T>(p, 1),  in<T>(p, 2),  in<T>(p, 3),
            out<T>(p, 0), out<T>(p, 1), out<T>(p, 2), out<T>(p, 3)};
  }
  template <class T>
  Gradients<T> gradients(Pointers p) const {
    return {in<T>(p, 0), in<T>(p, 1),  in<T>(p, 2),  in<T>(p, 3), in<T>(p, 4),
            in<T>(p, 5), out<T>(p, 0), out<T>(p, 1), out<T>(p, 2)};
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
    return reinterpret_cast<T*>(pointers[outputs_[i]]);
  }

  std::vector<ir::ValueId> inputs_, outputs_;
};

// A matrix (N, C): one launch, in which a block reads its columns twice.
struct Columns {
  std::int64_t channels, count;  // C, N
  double epsilon;
};

template <class T>
void enqueue_columns(const Columns& columns, const Normalized<T>& a, int ending,
                     cudaStream_t stream);
template <class T>
void enqueue_columns(const Columns& columns, const Gradients<T>& a, cudaStream_t stream);

}  // namespace traingraph::cuda
