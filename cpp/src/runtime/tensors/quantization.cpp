// Tensor::quantized and Tensor::dequantized, with one scale and bias or one per element of an axis.
#include <algorithm>
#include <cmath>
#include <limits>

#include <traingraph/errors.h>
#include <traingraph/tensor.h>

#include "ir/number_text.h"

namespace traingraph {
namespace {

// Scales and biases along one axis of a dense tensor; one of each where they hold for all.
struct Grid {
  const std::vector<float>& scale;
  const std::vector<std::int64_t>& bias;
  std::int64_t inner = 1;  // elements between neighbours along the axis

  std::size_t at(std::int64_t element) const {
    return static_cast<std::size_t>(element / inner) % scale.size();
  }
};

std::string subject(const char* call, const Tensor& tensor) {
  return std::string("[") + call + "] tensor '" + tensor.label() + "': ";
}

[[noreturn]] void refuse_type(const std::string& subject, const char* expected, DataType got) {
  throw DataTypeError(subject + "expected " + expected + " but got " + name(got));
}

Grid grid_along(const std::string& subject, const Shape& shape, const std::vector<float>& scale,
                const std::vector<std::int64_t>& bias, std::int64_t axis) {
  if (axis < 0 || axis >= static_cast<std::int64_t>(shape.size())) {
    throw ShapeError(subject + "expected an axis below the rank of " + to_string(shape) +
                     " but got " + std::to_string(axis));
  }
  const auto at = static_cast<std::size_t>(axis);
  const auto extent = static_cast<std::size_t>(shape[at]);
  if (scale.size() != extent || bias.size() != extent) {
    throw ShapeError(subject + "expected " + std::to_string(extent) +
                     " scales and biases, one per element along axis " + std::to_string(axis) +
                     " of " + to_string(shape) + ", but got " + std::to_string(scale.size()) +
                     " and " + std::to_string(bias.size()));
  }
  const auto first = shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1;
  return {scale, bias, element_count(Shape(first, shape.end()))};
}

void check_scales(const std::string& subject, const std::vector<float>& scales) {
  for (float scale : scales) {
    if (std::isfinite(scale) && scale > 0) continue;
    throw InvalidArgument(subject + "expected finite scales above 0 but got " + short_text(scale));
  }
}

// The newest value and room for what is made of it.
struct Values {
  TensorPtr from;
  TensorPtr to;
};

Values prepare(const std::string& subject, const Tensor& tensor, DataType type) {
  const TensorDescriptor& own = tensor.descriptor();
  Values values{Tensor::filled(own, 0), nullptr};
  try {
    tensor.copy_to(values.from->data().bytes, own.allocation_bytes());
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(subject + "expected a tensor with data: " + error.what());
  }
  TensorDescriptor descriptor = own;
  descriptor.data_type = type;
  values.to = Tensor::filled(std::move(descriptor), 0);
  return values;
}

template <class From, class To>
void quantize(const std::string& subject, const Values& values, const Grid& grid) {
  const auto* x = static_cast<const From*>(values.from->data().bytes);
  auto* q = static_cast<To*>(values.to->data().bytes);
  constexpr auto kLeast = static_cast<double>(std::numeric_limits<To>::lowest());
  constexpr auto kMost = static_cast<double>(std::numeric_limits<To>::max());
  const std::int64_t count = element_count(values.from->descriptor().shape);
  for (std::int64_t k = 0; k < count; ++k) {
    if (std::isnan(x[k])) {
      throw InvalidArgument(subject + "expected numbers but got NaN at element " +
                            std::to_string(k));
    }
    const std::size_t at = grid.at(k);
    // The rounding mode is to nearest, half to even, unless the program changed it.
    const double rounded = std::nearbyint(static_cast<double>(x[k]) / grid.scale[at]);
    q[k] = static_cast<To>(std::clamp(rounded + static_cast<double>(grid.bias[at]), kLeast, kMost));
  }
}

template <class From>
void quantize(const std::string& subject, const Values& values, const Grid& grid) {
  switch (values.to->descriptor().data_type) {
    case DataType::kInt8:
      return quantize<From, std::int8_t>(subject, values, grid);
    case DataType::kUInt8:
      return quantize<From, std::uint8_t>(subject, values, grid);
    default:
      return quantize<From, std::int32_t>(subject, values, grid);
  }
}

TensorPtr quantized_on(const Tensor& tensor, DataType to, const Grid& grid) {
  const std::string text = subject("quantized", tensor);
  if (to != DataType::kInt8 && to != DataType::kUInt8 && to != DataType::kInt32) {
    refuse_type(text, "int8, uint8 or int32 as target", to);
  }
  const DataType from = tensor.descriptor().data_type;
  if (from != DataType::kFloat32 && from != DataType::kFloat64) {
    refuse_type(text, "float32 or float64 numbers", from);
  }
  check_scales(text, grid.scale);
  Values values = prepare(text, tensor, to);
  if (from == DataType::kFloat32) {
    quantize<float>(text, values, grid);
  } else {
    quantize<double>(text, values, grid);
  }
  return values.to;
}

template <class From>
void dequantize(const Values& values, const Grid& grid) {
  const auto* q = static_cast<const From*>(values.from->data().bytes);
  auto* x = static_cast<float*>(values.to->data().bytes);
  const std::int64_t count = element_count(values.from->descriptor().shape);
  for (std::int64_t k = 0; k < count; ++k) {
    const std::size_t at = grid.at(k);
    const auto steps = static_cast<double>(q[k]) - static_cast<double>(grid.bias[at]);
    x[k] = static_cast<float>(steps * grid.scale[at]);
  }
}

TensorPtr dequantized_on(const Tensor& tensor, DataType to, const Grid& grid) {
  const std::string text = subject("dequantized", tensor);
  if (to != DataType::kFloat32) refuse_type(text, "float32 as target", to);
  const DataType from = tensor.descriptor().data_type;
  if (from != DataType::kInt8 && from != DataType::kUInt8 && from != DataType::kInt32) {
    refuse_type(text, "int8, uint8 or int32 numbers", from);
  }
  check_scales(text, grid.scale);
  Values values = prepare(text, tensor, to);
  if (from == DataType::kInt8) {
    dequantize<std::int8_t>(values, grid);
  } else if (from == DataType::kUInt8) {
    dequantize<std::uint8_t>(values, grid);
  } else {
    dequantize<std::int32_t>(values, grid);
  }
  return values.to;
}

}  // namespace

TensorPtr Tensor::quantized(DataType to, float scale, std::int64_t bias) const {
  const std::vector<float> scales{scale};
  const std::vector<std::int64_t> biases{bias};
  return quantized_on(*this, to, {scales, biases});
}

TensorPtr Tensor::dequantized(DataType to, float scale, std::int64_t zero_point) const {
  const std::vector<float> scales{scale};
  const std::vector<std::int64_t> biases{zero_point};
  return dequantized_on(*this, to, {scales, biases});
}

TensorPtr Tensor::quantized(DataType to, const std::vector<float>& scale,
                            const std::vector<std::int64_t>& bias, std::int64_t axis) const {
  const Shape& shape = descriptor().shape;
  return quantized_on(*this, to, grid_along(subject("quantized", *this), shape, scale, bias, axis));
}

TensorPtr Tensor::dequantized(DataType to, const std::vector<float>& scale,
                              const std::vector<std::int64_t>& bias, std::int64_t axis) const {
  const Shape& shape = descriptor().shape;
  return dequantized_on(*this, to,
                        grid_along(subject("dequantized", *this), shape, scale, bias, axis));
}

}  // namespace traingraph
