// Comparisons with broadcasting, to booleans, and one-hot vectors of integer classes.
#include <algorithm>

#include "backends/reference/any_type.h"
#include "ir/comparison.h"

namespace traingraph::reference {
// x [, y] → one byte per element, operands read through strides that are 0 along broadcast axes.
template <class T>
void compare(const Call& call) {
  const ir::Comparison comparison = call.get<ir::CompareAttributes>().comparison;
  const std::size_t last = call.inputs.size() - 1;
  BroadcastOffsets places(call);
  for (std::int64_t element = 0; element < places.count(); ++element, places.next()) {
    call.out<bool>(0)[element] = ir::holds(comparison, call.in<T>(0)[places.offset(0)],
                                           call.in<T>(last)[places.offset(last)]);
  }
}

// classes (N, 1, …) → (N, K, …); class -1 leaves zeros.
template <class T>
void one_hot(const Call& call) {
  const Shape& shape = call.out_shape(0);
  const std::int64_t classes = shape[1];
  const std::int64_t inner = element_count(shape) / (shape[0] * classes);
  T* const y = call.out<T>(0);
  std::fill_n(y, element_count(shape), T(0));
  for (std::int64_t position = 0; position < shape[0] * inner; ++position) {
    const std::int64_t at = call.inputs[0].data_type == DataType::kInt64
                                ? call.in<std::int64_t>(0)[position]
                                : call.in<std::int32_t>(0)[position];
    if (at >= 0) y[(position / inner * classes + at) * inner + position % inner] = T(1);
  }
}

TRAINGRAPH_FOR_ANY_TYPE(compare)
template void one_hot<float>(const Call&);
template void one_hot<double>(const Call&);

}  // namespace traingraph::reference
