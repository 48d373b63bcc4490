#include "common.metal"

// a, b -> y, one element of y per thread.
kernel void matmul(device const float* a [[buffer(0)]], device const float* b [[buffer(1)]],
                   device float* y [[buffer(2)]], constant shader::Matmul& m [[buffer(3)]],
                   uint element [[thread_position_in_grid]]) {
  const int column = int(element) % m.columns;
  const int row = int(element) / m.columns % m.rows;
  const int matrix = int(element) / m.columns / m.rows;
  device const float* left = a + offset_of(matrix, m.matrices, m.a_matrix) + row * m.a_row;
  device const float* right = b + offset_of(matrix, m.matrices, m.b_matrix) + column * m.b_column;
  Sum sum = no_sum();
  for (int k = 0; k < m.inner; ++k) add(sum, left[k * m.a_inner] * right[k * m.b_inner]);
  y[element] = m.alpha * total(sum);
}
