// Matrices and vectors as kernels see them.
#pragma once
#include "doubles.h"

namespace apple {

// Float32 values of one matrix of a buffer; a vector is a matrix of one row.
struct Matrix {
  Kept<id<MTLBuffer>> buffer;
  NSUInteger offset, rows, columns, row_bytes, matrices, matrix_bytes;

  float& at(NSUInteger matrix, NSUInteger row, NSUInteger column) const {
    return floats(buffer)[(offset + matrix * matrix_bytes + row * row_bytes) / 4 + column];
  }
  NSUInteger end() const {
    return offset + (matrices - 1) * matrix_bytes + (rows - 1) * row_bytes + columns * 4;
  }
  bool overlaps(const Matrix& other) const {
    return buffer.get() == other.buffer.get() && offset < other.end() && other.offset < end();
  }
};

// Fails where the matrix is nil, or a temporary one that may not be read.
Matrix read_matrix(MPSMatrix* matrix, const char* what);
Matrix read_vector(MPSVector* vector, const char* what);

// The origin that kernels over matrices begin at; others than zero have no behaviour.
void expect_origin(const MTLOrigin& origin, const char* what);

}  // namespace apple
