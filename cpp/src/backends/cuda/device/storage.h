// Conversions between stored element types and the types that kernels compute in. For .cu files
// only.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backends/cuda/device/device.h"
#include "backends/cuda/kernel/node_kernel.h"

namespace traingraph::cuda {

template <class S>
struct Storage {
  using Compute = float;
};
template <>
struct Storage<double> {
  using Compute = double;
};
// float64 for float64 elements, float32 for all others.
template <class S>
using Compute = typename Storage<S>::Compute;

__device__ inline double widen(double x) { return x; }
__device__ inline float widen(float x) { return x; }
__device__ inline float widen(__half x) { return __half2float(x); }
__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }

// Rounds to nearest, ties to even.
template <class S>
__device__ S narrow(Compute<S> x) {
  return static_cast<S>(x);
}
template <>
__device__ inline __half narrow<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 narrow<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// Conversions of two 16-bit elements at once: one instruction, where single conversions take two.
__device__ inline void widen_pair(const __nv_bfloat16* pair, float* to) {
  const auto both = *reinterpret_cast<const std::uint32_t*>(pair);
  to[0] = __uint_as_float(both << 16);
  to[1] = __uint_as_float(both & 0xffff0000u);
}
__device__ inline void widen_pair(const __half* pair, float* to) {
  const float2 both = __half22float2(*reinterpret_cast<const __half2*>(pair));
  to[0] = both.x;
  to[1] = both.y;
}
__device__ inline void narrow_pair(const float* pair, __nv_bfloat16* to) {
  *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(pair[0], pair[1]);
}
__device__ inline void narrow_pair(const float* pair, __half* to) {
  *reinterpret_cast<__half2*>(to) = __floats2half2_rn(pair[0], pair[1]);
}

template <class S, int kCount>
__device__ Pack<Compute<S>, kCount> widen(const Pack<S, kCount>& pack) {
  if constexpr (sizeof(S) > 2) {
    return pack;
  } else {
    Pack<float, kCount> wide;
    if constexpr (kCount == 1) wide.element[0] = widen(pack.element[0]);
#pragma unroll
    for (int v = 0; v + 1 < kCount; v += 2) widen_pair(pack.element + v, wide.element + v);
    return wide;
  }
}
template <class S, int kCount>
__device__ Pack<S, kCount> narrow(const Pack<Compute<S>, kCount>& pack) {
  if constexpr (sizeof(S) > 2) {
    return pack;
  } else {
    Pack<S, kCount> packed;
    if constexpr (kCount == 1) packed.element[0] = narrow<S>(pack.element[0]);
#pragma unroll
    for (int v = 0; v + 1 < kCount; v += 2) narrow_pair(pack.element + v, packed.element + v);
    return packed;
  }
}

// K<S> for the element type of the first operand.
template <template <class> class K>
std::unique_ptr<Kernel> make_floating_or_half(const ir::Graph& graph, const ir::Node& node,
                                              const Context& context) {
  switch (graph.type(node.inputs[0]).data_type) {
    case DataType::kFloat16:
      return std::make_unique<K<__half>>(graph, node, context);
    case DataType::kBFloat16:
      return std::make_unique<K<__nv_bfloat16>>(graph, node, context);
    default:
      return make_floating<K>(graph, node, context);
  }
}

}  // namespace traingraph::cuda
