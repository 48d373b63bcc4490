#include "runtime/memory/optimizer_buffers.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ir/number_text.h"
#include "runtime/numbers/half.h"

namespace traingraph {
namespace {

// Means of squares, whose roots are taken.
constexpr std::array<std::string_view, 3> kSquares = {"second_moment", "maximum_second_moment",
                                                      "mean_square"};

// The least of the values and 0; NaN is not less.
template <class T, class Widen>
double least_of(const TensorData& data, Widen widen) {
  const auto* const values = static_cast<const T*>(data.bytes);
  double least = 0;
  for (std::size_t i = 0; i < data.length / sizeof(T); ++i) {
    const double value = widen(values[i]);
    least = value < least ? value : least;
  }
  return least;
}

double least_of(const TensorData& data) {
  switch (data.data_type) {
    case DataType::kFloat32:
      return least_of<float>(data, [](float value) { return value; });
    case DataType::kFloat64:
      return least_of<double>(data, [](double value) { return value; });
    case DataType::kFloat16:
      return least_of<std::uint16_t>(data, widened_float16);
    case DataType::kBFloat16:
      return least_of<std::uint16_t>(data, widened_bfloat16);
    default:
      return 0;
  }
}

}  // namespace

std::string wrong_buffer(std::string_view slot, const TensorData& data) {
  if (std::ranges::find(kSquares, slot) == kSquares.end()) return {};
  const double least = least_of(data);
  if (!(least < 0)) return {};
  return "expected means of squares, at least 0, but got " +
         (std::isfinite(least) ? number_text(least) : short_text(least));
}

}  // namespace traingraph
