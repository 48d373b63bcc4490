// The precompiled scalar lists, which backends compile in as one loop each. A list of a graph that
// equals one of them up to immediates and the order of inputs takes that loop.
//
// `kinds` has a letter per input: v, an element per result element; s, one number; c, one per
// channel. Steps are (function, x, y) over registers: inputs first, then one per step.
#pragma once

#include <cstddef>
#include <iterator>
#include <utility>

#include "ir/activations.h"
#include "ir/scalar_gradient.h"
#include "ir/scalar_simplify.h"

namespace traingraph::ir {

struct PrecompiledStep {
  Scalar function = Scalar::identity;
  int x = -1;
  int y = -1;
};

namespace precompiled {

using enum Scalar;

#define TRAINGRAPH_UNPACK(...) __VA_ARGS__
#define TRAINGRAPH_LIST(name, kinds_text, all_steps, all_results)           \
  struct name {                                                             \
    static constexpr char kinds[] = kinds_text;                             \
    static constexpr PrecompiledStep steps[] = TRAINGRAPH_UNPACK all_steps; \
    static constexpr int results[] = TRAINGRAPH_UNPACK all_results;         \
  }

// layers
TRAINGRAPH_LIST(bias, "vc", ({{add, 0, 1}}), ({2}));
TRAINGRAPH_LIST(bias_relu, "vc", ({{add, 0, 1}, {relu, 2}}), ({3}));
TRAINGRAPH_LIST(channel_scale, "vc", ({{multiply, 0, 1}}), ({2}));
TRAINGRAPH_LIST(channel_subtract, "vc", ({{subtract, 0, 1}}), ({2}));
TRAINGRAPH_LIST(channel_affine, "vcc", ({{multiply, 0, 1}, {add, 3, 2}}), ({4}));
TRAINGRAPH_LIST(channel_broadcast, "c", ({{identity, 0}}), ({1}));
TRAINGRAPH_LIST(sum_relu, "vv", ({{add, 0, 1}, {relu, 2}}), ({3}));
TRAINGRAPH_LIST(relu_gradient_sum, "vvv", ({{add, 0, 1}, {relu_gradient, 3, 2}}), ({4}));

// optimizers: p, g, slots, learning rate; `_decay` adds L2 regularization to the gradient
TRAINGRAPH_LIST(sgd, "vvs", ({{multiply, 2, 1}, {subtract, 0, 3}}), ({4}));
TRAINGRAPH_LIST(sgd_decay, "vvs", ({{multiply_add, 1, 0}, {multiply, 2, 3}, {subtract, 0, 4}}),
                ({5}));
TRAINGRAPH_LIST(momentum, "vvvs", ({{multiply, 3, 1}, {multiply_add, 2, 4}, {subtract, 0, 5}}),
                ({6, 5}));
TRAINGRAPH_LIST(momentum_decay, "vvvs",
                ({{multiply_add, 1, 0}, {multiply, 3, 4}, {multiply_add, 2, 5}, {subtract, 0, 6}}),
                ({7, 6}));
TRAINGRAPH_LIST(nesterov, "vvvs",
                ({{multiply_add, 2, 1}, {multiply_add, 1, 4}, {multiply, 3, 5}, {subtract, 0, 6}}),
                ({7, 4}));
TRAINGRAPH_LIST(nesterov_decay, "vvvs",
                ({{multiply_add, 1, 0},
                  {multiply_add, 2, 4},
                  {multiply_add, 4, 5},
                  {multiply, 3, 6},
                  {subtract, 0, 7}}),
                ({8, 5}));
TRAINGRAPH_LIST(adam, "vvvvs",
                ({{multiply_add, 2, 1},
                  {square, 1},
                  {multiply_add, 3, 6},
                  {sqrt, 7},
                  {affine, 8},
                  {multiply, 4, 5},
                  {divide, 10, 9},
                  {subtract, 0, 11}}),
                ({12, 5, 7}));
TRAINGRAPH_LIST(adam_decay, "vvvvs",
                ({{multiply_add, 1, 0},
                  {multiply_add, 2, 5},
                  {square, 5},
                  {multiply_add, 3, 7},
                  {sqrt, 8},
                  {affine, 9},
                  {multiply, 4, 6},
                  {divide, 11, 10},
                  {subtract, 0, 12}}),
                ({13, 6, 8}));
TRAINGRAPH_LIST(adam_w, "vvvvss",
                ({{multiply_add, 2, 1},
                  {square, 1},
                  {multiply_add, 3, 7},
                  {sqrt, 8},
                  {affine, 9},
                  {multiply, 5, 6},
                  {divide, 11, 10},
                  {multiply, 4, 0},
                  {scale, 13},
                  {subtract, 0, 14},
                  {subtract, 15, 12}}),
                ({16, 6, 8}));
TRAINGRAPH_LIST(rmsprop, "vvvs",
                ({{square, 1},
                  {multiply_add, 2, 4},
                  {sqrt, 5},
                  {affine, 6},
                  {multiply, 3, 1},
                  {divide, 8, 7},
                  {subtract, 0, 9}}),
                ({10, 5}));
TRAINGRAPH_LIST(rmsprop_momentum, "vvvvs",
                ({{square, 1},
                  {multiply_add, 2, 5},
                  {sqrt, 6},
                  {affine, 7},
                  {multiply, 4, 1},
                  {divide, 9, 8},
                  {multiply_add, 3, 10},
                  {add, 0, 11}}),
                ({12, 6, 11}));

#undef TRAINGRAPH_LIST
#undef TRAINGRAPH_UNPACK

// An activation, or its gradient as the op `elementwise` derives it.
constexpr ScalarList list_of(std::size_t type, bool gradient) {
  const ScalarList forward = kActivations[type].list(1, 1);
  if (!gradient) return forward;
  std::vector<int> kept;
  return without_dead_code(simplified(differentiated(forward, {1})), kept);
}

// A list of one result, out of its vectors.
struct Copied {
  std::size_t inputs, size;
  int result;
  PrecompiledStep steps[32] = {};

  constexpr explicit Copied(const ScalarList& list)
      : inputs(static_cast<std::size_t>(list.inputs)),
        size(list.code.size()),
        result(list.results[0]) {
    for (std::size_t k = 0; k < size; ++k) {
      steps[k] = {list.code[k].function, list.code[k].x, list.code[k].y};
    }
  }
};
template <std::size_t kActivation, bool kGradient>
struct Source {
  static constexpr Copied list{list_of(kActivation, kGradient)};
};

// Arrays of their own, for device code reads no others.
template <class Of, class Inputs, class Steps>
struct Arrays;
template <class Of, std::size_t... input, std::size_t... step>
struct Arrays<Of, std::index_sequence<input...>, std::index_sequence<step...>> {
  static constexpr char kinds[sizeof...(input) + 1] = {"v"[0 * input]...};
  static constexpr PrecompiledStep steps[sizeof...(step)] = {Of::list.steps[step]...};
  static constexpr int results[1] = {Of::list.result};
};
template <class Of>
using ArraysOf =
    Arrays<Of, std::make_index_sequence<Of::list.inputs>, std::make_index_sequence<Of::list.size>>;

}  // namespace precompiled

template <class... L>
struct Lists {};
template <class... L>
constexpr std::size_t count(Lists<L...>) {
  return sizeof...(L);
}
template <class... A, class... B>
constexpr Lists<A..., B...> operator+(Lists<A...>, Lists<B...>) {
  return {};
}

// Single functions have a loop anyway.
template <std::size_t kActivation>
constexpr auto lists_of_activation() {
  using Forward = precompiled::Source<kActivation, false>;
  using Gradient = precompiled::Source<kActivation, true>;
  if constexpr (Forward::list.size == 1) {
    return Lists<>();
  } else {
    return Lists<precompiled::ArraysOf<Forward>, precompiled::ArraysOf<Gradient>>();
  }
}
template <std::size_t... kActivation>
constexpr auto lists_of_activations(std::index_sequence<kActivation...>) {
  return (Lists<>() + ... + lists_of_activation<kActivation>());
}

using PrecompiledLists =
    decltype(Lists<precompiled::bias, precompiled::bias_relu, precompiled::channel_scale,
                   precompiled::channel_subtract, precompiled::channel_affine,
                   precompiled::channel_broadcast, precompiled::sum_relu,
                   precompiled::relu_gradient_sum, precompiled::sgd, precompiled::sgd_decay,
                   precompiled::momentum, precompiled::momentum_decay, precompiled::nesterov,
                   precompiled::nesterov_decay, precompiled::adam, precompiled::adam_decay,
                   precompiled::adam_w, precompiled::rmsprop, precompiled::rmsprop_momentum>() +
             lists_of_activations(std::make_index_sequence<std::size(kActivations)>()));

}  // namespace traingraph::ir
