// What the weights and biases of blocks begin with.
#pragma once

#include <functional>
#include <string>
#include <variant>

#include <traingraph/export.h>
#include <traingraph/tensor.h>

namespace traingraph::nn {

// Keras' names: "zeros", "ones", "glorot_uniform", "glorot_normal", "he_uniform", "he_normal",
// "lecun_uniform", "lecun_normal" (normal ones without what lies beyond two deviations),
// "random_uniform" within ±0.05, "random_normal" and "truncated_normal" of deviation 0.05,
// "orthogonal". Or a number for each, or a function of the shape that gives float32 values. All are
// finite, or it raises InvalidArgument.
class TRAINGRAPH_API Initializer {
 public:
  using Function = std::function<TensorData(const Shape& shape)>;

  // The block's own.
  Initializer() = default;
  // Raises InvalidArgument that lists the names.
  Initializer(const std::string& name);
  Initializer(const char* name) : Initializer(std::string(name)) {}
  // Raises InvalidArgument unless float32 has it.
  Initializer(double number);
  Initializer(Function function) : how_(std::move(function)) {}

  bool is_given() const { return !std::holds_alternative<std::monostate>(how_); }
  // A parameter of that many inputs of each output, and outputs of each input.
  TensorPtr make(const Shape& shape, double fan_in, double fan_out) const;

 private:
  std::variant<std::monostate, std::string, double, Function> how_;
};

}  // namespace traingraph::nn
