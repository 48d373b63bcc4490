#include "backends/reference/call.h"

namespace traingraph::reference {

// a (…, M, K), b (…, K, N) → y (…, M, N), each transposed where the attributes say so; leading
// axes broadcast.
template <class T>
void matmul(const Call& call) {
  const auto& attributes = call.get<ir::MatmulAttributes>();
  const Shape& a = call.in_shape(0);
  const Shape& b = call.in_shape(1);
  const Shape& y = call.out_shape(0);
  const std::int64_t rows = y[y.size() - 2];
  const std::int64_t columns = y[y.size() - 1];
  const std::int64_t inner = attributes.transpose_a ? a[a.size() - 2] : a[a.size() - 1];
  const std::int64_t a_row = attributes.transpose_a ? 1 : inner;
  const std::int64_t a_inner = attributes.transpose_a ? rows : 1;
  const std::int64_t b_inner = attributes.transpose_b ? 1 : columns;
  const std::int64_t b_column = attributes.transpose_b ? inner : 1;
  const std::int64_t matrices = element_count(y) / (rows * columns);
  for (std::int64_t m = 0; m < matrices; ++m) {
    // Which matrix of each operand: leading axes of extent 1 stay at 0.
    auto matrix_of = [&](const Shape& shape) {
      std::int64_t index = 0, rest = m, step = 1;
      for (std::size_t k = 2; k < y.size(); ++k) {
        const std::int64_t at = rest % y[y.size() - 1 - k];
        rest /= y[y.size() - 1 - k];
        if (k >= shape.size()) continue;
        const std::int64_t extent = shape[shape.size() - 1 - k];
        if (extent > 1) index += at * step;
        step *= extent;
      }
      return index;
    };
    const T* left = call.in<T>(0) + matrix_of(a) * rows * inner;
    const T* right = call.in<T>(1) + matrix_of(b) * inner * columns;
    T* result = call.out<T>(0) + m * rows * columns;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < inner; ++k) {
          sum += static_cast<double>(left[i * a_row + k * a_inner]) *
                 static_cast<double>(right[k * b_inner + j * b_column]);
        }
        result[i * columns + j] = static_cast<T>(attributes.alpha * sum);
      }
    }
  }
}

template void matmul<float>(const Call&);
template void matmul<double>(const Call&);

}  // namespace traingraph::reference
