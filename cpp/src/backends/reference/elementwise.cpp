#include "backends/reference/call.h"

namespace traingraph::reference {

// Element by element: each input is read through strides that are 0 along broadcast axes.
template <class T>
void elementwise(const Call& call) {
  const auto& list = call.get<ir::ElementwiseAttributes>().list;
  const Shape& shape = call.out_shape(0);
  const std::size_t rank = shape.size();
  constexpr int kMaxRegisters = 256;
  T registers[kMaxRegisters];
  std::int64_t index[8] = {};
  const std::int64_t count = element_count(shape);
  for (std::int64_t element = 0; element < count; ++element) {
    for (int i = 0; i < list.inputs; ++i) {
      const Shape& source = call.in_shape(static_cast<std::size_t>(i));
      std::int64_t offset = 0;
      for (std::size_t axis = 0; axis < source.size(); ++axis) {
        const std::int64_t extent = source[axis];
        const std::int64_t at = extent == 1 ? 0 : index[rank - source.size() + axis];
        offset = offset * extent + at;
      }
      registers[i] = call.in<T>(static_cast<std::size_t>(i))[offset];
    }
    int next = list.inputs;
    for (const ir::Instruction& k : list.code) {
      const T x = k.x >= 0 ? registers[k.x] : T(0);
      const T y = k.y >= 0 ? registers[k.y] : T(0);
      registers[next++] = ir::scalar::evaluate<StandardMath, T>(
          k.function, x, y, static_cast<T>(k.p), static_cast<T>(k.q));
    }
    for (std::size_t r = 0; r < list.results.size(); ++r) {
      call.out<T>(r)[element] = registers[list.results[r]];
    }
    for (std::size_t axis = rank; axis-- > 0;) {
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
    }
  }
}

template void elementwise<float>(const Call&);
template void elementwise<double>(const Call&);

}  // namespace traingraph::reference
