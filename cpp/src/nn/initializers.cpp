// Initial values by Keras' names (https://keras.io/api/layers/initializers), drawn from the
// library's own random numbers.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <traingraph/errors.h>

#include "nn/layer_block.h"

namespace traingraph::nn {
namespace {

struct Fans {
  double in, out;
  double both() const { return (in + out) / 2; }
};

using Fill = void (*)(std::vector<float>& values, const Shape& shape, const Fans& fans);

std::vector<float> drawn(std::size_t count, RandomInitializerType type) {
  const auto extent = static_cast<std::int64_t>(count);
  const TensorPtr tensor = Tensor::random(TensorDescriptor({extent}), type, 1, 1);
  const auto* values = static_cast<const float*>(tensor->data().bytes);
  return {values, values + count};
}

void scale(std::vector<float>& values, double factor) {
  for (float& value : values) value = static_cast<float>(static_cast<double>(value) * factor);
}

void uniform(std::vector<float>& values, double limit) {
  values = drawn(values.size(), RandomInitializerType::kUniform);
  for (float& value : values) value = 2 * value - 1;
  scale(values, limit);
}

void normal(std::vector<float>& values, double deviation) {
  values = drawn(values.size(), RandomInitializerType::kXavier);
  scale(values, deviation);
}

// What lies beyond two deviations is drawn again.
void truncated(std::vector<float>& values, double deviation) {
  std::size_t count = 0;
  while (count < values.size()) {
    for (const float value : drawn(values.size(), RandomInitializerType::kXavier)) {
      if (std::abs(value) <= 2 && count < values.size()) values[count++] = value;
    }
  }
  scale(values, deviation);
}

// With the variance 1 / fan: that of a normal distribution cut at two deviations is 0.7737.
void truncated_of_fan(std::vector<float>& values, double times, double fan) {
  truncated(values, std::sqrt(times / fan) / 0.87962566103423978);
}

double dot(const float* a, const float* b, std::size_t count) {
  double sum = 0;
  for (std::size_t k = 0; k < count; ++k) {
    sum += static_cast<double>(a[k]) * static_cast<double>(b[k]);
  }
  return sum;
}

// Rows of length 1 at right angles, or columns where there are more rows: Gram and Schmidt's, each
// twice for the sake of rounding.
void orthogonal(std::vector<float>& values, const Shape& shape, const Fans&) {
  const auto rows = static_cast<std::size_t>(shape[0]);
  const std::size_t columns = values.size() / rows;
  const std::size_t count = std::min(rows, columns), length = std::max(rows, columns);
  std::vector<float> vectors = drawn(values.size(), RandomInitializerType::kXavier);
  for (std::size_t k = 0; k < count; ++k) {
    float* const vector = vectors.data() + k * length;
    for (std::size_t j = 0; j < 2 * k; ++j) {
      const float* const other = vectors.data() + j % k * length;
      const auto along = static_cast<float>(dot(vector, other, length));
      for (std::size_t n = 0; n < length; ++n) vector[n] -= along * other[n];
    }
    const auto norm = static_cast<float>(std::sqrt(dot(vector, vector, length)));
    for (std::size_t n = 0; n < length; ++n) vector[n] /= norm;
  }
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      values[r * columns + c] = vectors[rows <= columns ? r * length + c : c * length + r];
    }
  }
}

struct NamedFill {
  const char* name;
  Fill fill;
};
using Values = std::vector<float>;
constexpr NamedFill kFills[] = {
    {"zeros", [](Values& v, const Shape&, const Fans&) { std::ranges::fill(v, 0.0f); }},
    {"ones", [](Values& v, const Shape&, const Fans&) { std::ranges::fill(v, 1.0f); }},
    {"glorot_uniform",
     [](Values& v, const Shape&, const Fans& f) { uniform(v, std::sqrt(3 / f.both())); }},
    {"glorot_normal",
     [](Values& v, const Shape&, const Fans& f) { truncated_of_fan(v, 1, f.both()); }},
    {"he_uniform", [](Values& v, const Shape&, const Fans& f) { uniform(v, std::sqrt(6 / f.in)); }},
    {"he_normal", [](Values& v, const Shape&, const Fans& f) { truncated_of_fan(v, 2, f.in); }},
    {"lecun_uniform",
     [](Values& v, const Shape&, const Fans& f) { uniform(v, std::sqrt(3 / f.in)); }},
    {"lecun_normal", [](Values& v, const Shape&, const Fans& f) { truncated_of_fan(v, 1, f.in); }},
    {"random_uniform", [](Values& v, const Shape&, const Fans&) { uniform(v, 0.05); }},
    {"random_normal", [](Values& v, const Shape&, const Fans&) { normal(v, 0.05); }},
    {"truncated_normal", [](Values& v, const Shape&, const Fans&) { truncated(v, 0.05); }},
    {"orthogonal", orthogonal},
};

void expect_finite(const float* values, std::size_t count) {
  const auto is_finite = [](float value) { return std::isfinite(value); };
  const float* const found = std::find_if_not(values, values + count, is_finite);
  if (found == values + count) return;
  throw InvalidArgument("[initializer] expected finite values of float32 but got " +
                        number_text(static_cast<double>(*found)) + " as element " +
                        std::to_string(found - values));
}

}  // namespace

Initializer::Initializer(const std::string& name)
    : how_(std::string(row_named(kFills, "initializer", "one", name).name)) {}

Initializer::Initializer(double number) : how_(number) {
  if (std::isfinite(static_cast<float>(number))) return;
  throw InvalidArgument("[initializer] expected a finite number of float32 but got " +
                        number_text(number));
}

TensorPtr Initializer::make(const Shape& shape, double fan_in, double fan_out) const {
  if (const auto* number = std::get_if<double>(&how_)) {
    return Tensor::filled(TensorDescriptor(shape), *number);
  }
  const std::size_t count = static_cast<std::size_t>(element_count(shape));
  if (const auto* function = std::get_if<Function>(&how_)) {
    const TensorData given = (*function)(shape);
    if (given.data_type != DataType::kFloat32 || given.shape != shape || given.bytes == nullptr) {
      throw ShapeError("[initializer] expected float32 values " + to_string(shape) + " but got " +
                       name(given.data_type) + " " + to_string(given.shape));
    }
    expect_finite(static_cast<const float*>(given.bytes), count);
    return Tensor::create(
        TensorDescriptor(shape),
        TensorData::copy_of(given.bytes, count * sizeof(float), DataType::kFloat32, shape));
  }
  Values values(count);
  const auto& named = row_named(kFills, "initializer", "one", std::get<std::string>(how_));
  named.fill(values, shape, {fan_in, fan_out});
  return Tensor::create(
      TensorDescriptor(shape),
      TensorData::copy_of(values.data(), count * sizeof(float), DataType::kFloat32, shape));
}

}  // namespace traingraph::nn
