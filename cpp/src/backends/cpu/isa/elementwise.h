#pragma once

#include <cstdint>

namespace traingraph::cpu {

struct Immediates {
  float p = 0;
  float q = 0;
};

// r[i] = f(x[i], y[i]) for i in [0, n); r may be x or y.
using FunctionLoop = void (*)(float* r, const float* x, const float* y, Immediates immediates,
                              std::int64_t n);

// One scalar function: both operands arrays, y one number, x one number.
struct FunctionLoops {
  FunctionLoop arrays;
  FunctionLoop number_y;
  FunctionLoop number_x;
};

// How a compiled list runs over units of memory. Operands by kind: 'v' has an element per result
// element, 's' is one number, 'c' has one element (or one vector of `lanes`) per channel.
struct CompiledCall {
  const float* const* in;
  float* const* out;
  const Immediates* immediates;  // per instruction
  // The results as (batch, channels, space, lanes); without 'c' operands all that counts is
  // `lanes`: the whole range is one unit.
  std::int64_t channels = 1;
  std::int64_t space = 1;
  std::int64_t lanes = 1;
};

struct CompiledLoops {
  // Elements [begin, end); no 'c' operands.
  void (*flat)(const CompiledCall&, std::int64_t begin, std::int64_t end);
  // lanes == 1: units are (batch, channel), `space` elements each.
  void (*by_channel)(const CompiledCall&, std::int64_t begin, std::int64_t end);
  // units are (batch, channel, position), `lanes` elements each.
  void (*by_lane)(const CompiledCall&, std::int64_t begin, std::int64_t end);
};

struct ElementwiseLoops {
  const FunctionLoops* functions;  // by ir::Scalar
  const CompiledLoops* compiled;   // in the order of ir::PrecompiledLists
};

}  // namespace traingraph::cpu
