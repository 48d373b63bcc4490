// Attributes of batch_norm and batch_norm_gradient, and names for the places of their operands.
#pragma once

#include <cstddef>

#include "ir/scalar.h"

namespace traingraph::ir {

// Channel axis 1; where x has 16 bits, what is per channel is float32. batch_norm: x, gamma, beta
// [, epilogue inputs] → y, mean, inverse deviation, biased variance. batch_norm_gradient: dy, x,
// mean, inverse deviation, gamma → dx, dgamma, dbeta; with a prologue, dy is the prologue's result
// over (dy, its other inputs, which come last). A prologue relu_gradient(dy, y) may have beta
// behind it, where y is relu(batch_norm(x)): a kernel may work y out again instead of reading it.
// What the prologue gives is a fourth result where others read it too.
//
// A batch_norm may give its coefficients, (C, 4) of the statistics' type, as its last result: the
// numbers per channel that its kernel has made y from x with. What they are is the backend's
// matter. Another one over the same x that is given them, as its last input, gives y alone, to the
// same bits and without finding the statistics again. `alone`: it gives no y, so that its
// statistics are its first results; another batch_norm, to which y was to be added, has the
// coefficients (adds_normalized).
enum class Coefficients { inside, result, given, alone };

struct BatchNormAttributes {
  double epsilon = 1e-5;
  ScalarList epilogue;  // the gradient's prologue
  bool gives_prologue = false;
  // A ReLU mask: a bit per element of the result in memory order, whether it is not at or below 0,
  // in bytes up to whole words of 32 bits. The op gives it as its fifth result, and its gradient
  // reads it in place of the result. Only backends that said so have them.
  bool has_relu_mask = false;
  // What is added to the result is the x of a batch_norm `alone`, whose coefficients follow it
  // among the inputs.
  bool adds_normalized = false;
  // A gradient with a ReLU mask also is that of a second batch norm, whose result the first one's
  // had been added to: it has its x, mean, inverse_deviation and gamma behind all other inputs, and
  // its dx, dgamma and dbeta behind all other results.
  bool has_residual_pair = false;
  Coefficients coefficients = Coefficients::inside;
  // The statistics, and what the gradient divides by, are those of the first rows alone, as many as
  // an int64 scalar says, which stands behind beta, and behind the gradient's gamma. The other rows
  // of dx are zeros. No epilogue reads operands, and the gradient has no prologue.
  bool counts_rows = false;
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("epsilon", a.epsilon);
    f("epilogue", a.epilogue);
    f("gives_prologue", a.gives_prologue);
    f("has_relu_mask", a.has_relu_mask);
    f("adds_normalized", a.adds_normalized);
    f("has_residual_pair", a.has_residual_pair);
    f("counts_rows", a.counts_rows);
    f("coefficients", a.coefficients);
  }
  bool operator==(const BatchNormAttributes&) const = default;
};

// Places of the operands of batch_norm, and of its results.
struct BatchNormOperands {
  static constexpr std::size_t x = 0, gamma = 1, beta = 2;
  // The epilogue's inputs behind y: its input k.
  static constexpr std::size_t epilogue(int k) { return static_cast<std::size_t>(k) + 2; }
  // With adds_normalized: the other batch norm's x, in place of its result, and its coefficients.
  static constexpr std::size_t added_x = 3, added_coefficients = 4;
  static constexpr std::size_t rows = 3;  // with counts_rows
  static constexpr std::size_t y = 0, mean = 1, inverse_deviation = 2;
};

// Those of batch_norm_gradient.
struct BatchNormGradientOperands {
  static constexpr std::size_t dy = 0, x = 1, mean = 2, inverse_deviation = 3, gamma = 4;
  // The prologue's input k: the first is in the place of dy, the others come last.
  static constexpr std::size_t prologue(int k) {
    return k == 0 ? dy : static_cast<std::size_t>(k) + 4;
  }
  // Behind a prologue of so many inputs; not in a residual pair.
  static constexpr std::size_t beta(int inputs) { return static_cast<std::size_t>(inputs) + 4; }
  static constexpr std::size_t rows = 5;  // with counts_rows
  static constexpr std::size_t dx = 0, given_prologue = 3;
  // In a residual pair, behind a prologue of so many inputs: where those of the second one begin.
  static constexpr std::size_t paired(int inputs) { return static_cast<std::size_t>(inputs) + 4; }
  static constexpr std::size_t paired_dx = 4;
};

}  // namespace traingraph::ir
