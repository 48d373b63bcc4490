#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backends/cuda/device.h"
#include "backends/cuda/node_kernel.h"

// Element types in memory, and what is computed with them. For .cu files only.
namespace traingraph::cuda {

template <class S>
struct Storage {
  using Compute = float;
};
template <>
struct Storage<double> {
  using Compute = double;
};
// float64 for elements of float64, float32 for all others.
template <class S>
using Compute = typename Storage<S>::Compute;

__device__ inline double widen(double x) { return x; }
__device__ inline float widen(float x) { return x; }
__device__ inline float widen(__half x) { return __half2float(x); }
__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }

// Rounded to the nearest, ties to even.
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

// Neighbouring elements, moved at once.
template <class S, int kPack>
struct alignas(kPack * sizeof(S)) Elements {
  S at[kPack];
};

template <int kPack, class S>
__device__ Elements<S, kPack> load(const S* from) {
  return *reinterpret_cast<const Elements<S, kPack>*>(from);
}
template <class S, int kPack>
__device__ void store(S* to, const Elements<S, kPack>& elements) {
  *reinterpret_cast<Elements<S, kPack>*>(to) = elements;
}

// K of the type of the first operand.
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
