// Sum, norm and count of non-finite elements over axes, in float64.
#include <algorithm>

#include "backends/reference/call.h"

namespace traingraph::reference {

namespace {

// each(f) calls f with every number. Squares are those of shares of the largest one: no number of
// the type has a square that is too large or too small then.
template <class Each>
double reduced(ir::ReduceKind kind, const Each& each) {
  double largest = 1, sum = 0;
  if (kind == ir::ReduceKind::norm) {
    largest = 0;
    each([&](double value) { largest = std::max(largest, std::abs(value)); });
    if (largest == 0 || std::isinf(largest)) largest = 1;
  }
  each([&](double value) {
    if (kind == ir::ReduceKind::not_finite) {
      sum += std::isfinite(value) ? 0 : 1;
    } else if (kind == ir::ReduceKind::norm) {
      sum += value / largest * (value / largest);
    } else {
      sum += value;
    }
  });
  return kind == ir::ReduceKind::norm ? largest * std::sqrt(sum) : sum;
}

}  // namespace

// x (…) → y (… with reduced extents 1), summed in float64.
template <class T>
void reduce(const Call& call) {
  const auto& attributes = call.get<ir::ReduceAttributes>();
  const Shape& source = call.in_shape(0);
  const auto strides = dense_strides(source);
  const Shape& shape = call.out_shape(0);
  std::int64_t inner = 1;
  for (int axis : attributes.axes) inner *= source[static_cast<std::size_t>(axis)];
  const std::int64_t count = element_count(shape);
  const T* x = call.in<T>(0);
  for (std::int64_t element = 0; element < count; ++element) {
    std::int64_t base = 0;
    std::int64_t rest = element;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      base += rest % shape[axis] * strides[axis];
      rest /= shape[axis];
    }
    call.out<T>(0)[element] = static_cast<T>(reduced(attributes.kind, [&](const auto& take) {
      for (std::int64_t k = 0; k < inner; ++k) {
        std::int64_t offset = base;
        std::int64_t left = k;
        for (std::size_t a = attributes.axes.size(); a-- > 0;) {
          const auto axis = static_cast<std::size_t>(attributes.axes[a]);
          offset += left % source[axis] * strides[axis];
          left /= source[axis];
        }
        take(static_cast<double>(x[offset]));
      }
    }));
  }
}

template void reduce<float>(const Call&);
template void reduce<double>(const Call&);

}  // namespace traingraph::reference
