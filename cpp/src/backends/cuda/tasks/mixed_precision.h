// Mixed-precision operands of elementwise kernels: float32 arithmetic on 16-bit elements in memory.
// For .cu files only.
#pragma once

#include "backends/cuda/device/elementwise.h"
#include "backends/cuda/device/storage.h"

namespace traingraph::cuda {

enum class ElementType : std::uint8_t { float32, float16, bfloat16 };

inline ElementType element_type_of(DataType type) {
  return type == DataType::kFloat16    ? ElementType::float16
         : type == DataType::kBFloat16 ? ElementType::bfloat16
                                       : ElementType::float32;
}

// `Base` gives the position of an operand's elements, and this class their type.
template <class Base, int kOperands, int kResults>
struct Mixed : Base {
  ElementType inputs[kOperands];
  ElementType results[kResults];

  template <int kElements, class S>
  __device__ Pack<float, kElements> widened(const float* source, int i, std::int64_t first,
                                            std::int64_t count) const {
    return widen(
        Base::template load<kElements>(reinterpret_cast<const S*>(source), i, first, count));
  }

  template <int kElements>
  __device__ Pack<float, kElements> load(const float* source, int i, std::int64_t first,
                                         std::int64_t count) const {
    switch (inputs[i]) {
      case ElementType::float16:
        return widened<kElements, __half>(source, i, first, count);
      case ElementType::bfloat16:
        return widened<kElements, __nv_bfloat16>(source, i, first, count);
      default:
        return Base::template load<kElements>(source, i, first, count);
    }
  }

  __device__ float element(const float* source, int i, int at) const {
    switch (inputs[i]) {
      case ElementType::float16:
        return widen(Base::element(reinterpret_cast<const __half*>(source), i, at));
      case ElementType::bfloat16:
        return widen(Base::element(reinterpret_cast<const __nv_bfloat16*>(source), i, at));
      default:
        return Base::element(source, i, at);
    }
  }
  __device__ void put(float* target, int r, int at, float value) const {
    switch (results[r]) {
      case ElementType::float16:
        return Base::put(reinterpret_cast<__half*>(target), r, at, narrow<__half>(value));
      case ElementType::bfloat16:
        return Base::put(reinterpret_cast<__nv_bfloat16*>(target), r, at,
                         narrow<__nv_bfloat16>(value));
      default:
        return Base::put(target, r, at, value);
    }
  }

  template <class S, int kElements>
  __device__ void narrowed(float* target, std::int64_t first, std::int64_t count,
                           const Pack<float, kElements>& pack) const {
    store_dense(reinterpret_cast<S*>(target), first, count, narrow<S>(pack));
  }

  template <int kElements>
  __device__ void store(float* target, int r, std::int64_t first, std::int64_t count,
                        const Pack<float, kElements>& pack) const {
    switch (results[r]) {
      case ElementType::float16:
        return narrowed<__half>(target, first, count, pack);
      case ElementType::bfloat16:
        return narrowed<__nv_bfloat16>(target, first, count, pack);
      default:
        return store_dense(target, first, count, pack);
    }
  }
};

template <int kOperands>
using MixedFlat = Mixed<Flat<kOperands>, kOperands, 4>;
template <int kOperands>
using MixedBroadcast = Mixed<Broadcast<kOperands>, kOperands, kOperands>;

// Whether a node has 16-bit operands, and otherwise only float32.
inline bool is_mixed(const ir::Graph& graph, const ir::Node& node) {
  bool half = false;
  for (const auto* operands : {&node.inputs, &node.outputs}) {
    for (ir::ValueId id : *operands) {
      const DataType type = graph.type(id).data_type;
      if (!ir::is_half(type) && type != DataType::kFloat32) return false;
      half = half || ir::is_half(type);
    }
  }
  return half;
}

// Sets the element types of a node's operands; input i of the list is input input_of[i] of the
// node.
template <class Operands>
void set_element_types(const ir::Graph& graph, const ir::Node& node,
                       const std::vector<int>& input_of, Operands& operands) {
  for (std::size_t i = 0; i < input_of.size(); ++i) {
    const ir::ValueId id = node.inputs[static_cast<std::size_t>(input_of[i])];
    operands.inputs[i] = element_type_of(graph.type(id).data_type);
  }
  for (std::size_t r = 0; r < node.outputs.size(); ++r) {
    operands.results[r] = element_type_of(graph.type(node.outputs[r]).data_type);
  }
}

}  // namespace traingraph::cuda
