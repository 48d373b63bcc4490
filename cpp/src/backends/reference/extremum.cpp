#include <type_traits>

#include "backends/reference/any_type.h"

namespace traingraph::reference {
namespace {

template <class T>
bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(value);
  return false;
}

}  // namespace

// x (…, D, …) → y (…, 1, …) and its place on the axis: the first of equals, the first NaN of all.
template <class T>
void extremum(const Call& call) {
  const auto& a = call.get<ir::ExtremumAttributes>();
  const Shape& shape = call.in_shape(0);
  const std::int64_t depth = shape[static_cast<std::size_t>(a.axis)];
  const std::int64_t step = dense_strides(shape)[static_cast<std::size_t>(a.axis)];
  const std::int64_t count = element_count(call.out_shape(0));
  const T* const x = call.in<T>(0);
  for (std::int64_t element = 0; element < count; ++element) {
    const T* const from = x + element / step * depth * step + element % step;
    std::int64_t place = 0;
    for (std::int64_t k = 1; k < depth; ++k) {
      const T value = from[k * step], best = from[place * step];
      const bool better = a.largest ? value > best : value < best;
      if (!is_nan(best) && (better || is_nan(value))) place = k;
    }
    call.out<T>(0)[element] = from[place * step];
    if (a.numbers) {
      call.out<float>(1)[element] = static_cast<float>(place);
    } else {
      call.out<std::int32_t>(1)[element] = static_cast<std::int32_t>(place);
    }
  }
}

// → the attributes' numbers.
template <class T>
void constant(const Call& call) {
  const std::vector<double>& numbers = call.get<ir::ConstantAttributes>().numbers;
  const auto count = static_cast<std::size_t>(element_count(call.out_shape(0)));
  for (std::size_t k = 0; k < count; ++k) {
    call.out<T>(0)[k] = static_cast<T>(numbers[numbers.size() == 1 ? 0 : k]);
  }
}

TRAINGRAPH_FOR_ANY_TYPE(extremum)
TRAINGRAPH_FOR_ANY_TYPE(constant)

}  // namespace traingraph::reference
