// What a reference kernel sees: its op, its operands' types and their bytes. Layouts are plain.
#pragma once

#include <array>
#include <cmath>
#include <vector>

#include "ir/graph.h"
#include "ir/scalar_value.h"
#include "runtime/kernel.h"

namespace traingraph::reference {

struct Call {
  const ir::Node& node;
  const std::vector<ir::Type>& inputs;
  const std::vector<ir::Type>& outputs;
  const std::vector<ir::Layout>& input_layouts;
  const std::vector<ir::Layout>& output_layouts;
  Pointers pointers;

  template <class A>
  const A& get() const {
    return std::get<A>(node.attributes);
  }
  template <class T>
  const T* in(std::size_t i) const {
    return reinterpret_cast<const T*>(pointers[node.inputs[i]]);
  }
  template <class T>
  T* out(std::size_t i) const {
    return reinterpret_cast<T*>(pointers[node.outputs[i]]);
  }
  const Shape& in_shape(std::size_t i) const { return inputs[i].shape; }
  const Shape& out_shape(std::size_t i) const { return outputs[i].shape; }
};

// Distances in elements along the axes of a dense tensor of at most eight axes, without allocating.
inline std::array<std::int64_t, 8> dense_strides(const Shape& shape) {
  std::array<std::int64_t, 8> strides{};
  std::int64_t step = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = step;
    step *= shape[axis];
  }
  return strides;
}

// The scalar table's mathematics by the standard library.
struct StandardMath {
#define TRAINGRAPH_MATH(name) \
  template <class T>          \
  static T name(T x) {        \
    return std::name(x);      \
  }
  TRAINGRAPH_MATH_OF_ONE(TRAINGRAPH_MATH)
#undef TRAINGRAPH_MATH
  template <class T>
  static T pow(T x, T y) {
    return std::pow(x, y);
  }
  template <class T>
  static T gelu_derivative(T x) {
    return ir::scalar::gelu_derivative<StandardMath>(x);
  }
};

// One function template per op: `template <class T> void matmul(const Call&)`, instantiated for
// float and double in backends/reference/<family>.cpp.
#define TRAINGRAPH_OP(name, attributes, cpu) \
  template <class T>                         \
  void name(const Call& call);
#define TRAINGRAPH_FOREIGN_OP(name, attributes)
#include "ops.def"
#undef TRAINGRAPH_OP

}  // namespace traingraph::reference
