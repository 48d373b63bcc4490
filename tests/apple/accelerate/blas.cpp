// The matrix product of Accelerate's BLAS by plain loops, summed in float64.
#include <Accelerate/Accelerate.h>

#include "double.h"

using namespace accelerate_double;

void cblas_sgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE transpose_a, CBLAS_TRANSPOSE transpose_b, int m,
                 int n, int k, float alpha, const float* a, int lda, const float* b, int ldb,
                 float beta, float* c, int ldc) {
  constexpr const char* kCall = "cblas_sgemm";
  refuses(kCall);
  require(order == CblasRowMajor, kCall, "the double knows row-major matrices only");
  require(m > 0 && n > 0 && k > 0, kCall, "an extent is 0 or negative");
  require(a != nullptr && b != nullptr && c != nullptr, kCall, "a matrix is null");
  const bool a_turned = transpose_a == CblasTrans, b_turned = transpose_b == CblasTrans;
  require(lda >= (a_turned ? m : k) && ldb >= (b_turned ? k : n) && ldc >= n, kCall,
          "a leading dimension is shorter than a row");
  const auto bytes = [](const float* matrix, int rows, int leading, int columns) {
    const auto count = static_cast<std::size_t>(rows - 1) * static_cast<std::size_t>(leading);
    return Range{matrix, count + static_cast<std::size_t>(columns)};
  };
  const Range result = bytes(c, m, ldc, n);
  require(!overlap(result, a_turned ? bytes(a, k, lda, m) : bytes(a, m, lda, k)) &&
              !overlap(result, b_turned ? bytes(b, n, ldb, k) : bytes(b, k, ldb, n)),
          kCall, "the result overlaps an operand");
  for (long i = 0; i < m; ++i) {
    for (long j = 0; j < n; ++j) {
      double sum = 0;
      for (long l = 0; l < k; ++l) {
        sum += static_cast<double>(a_turned ? a[l * lda + i] : a[i * lda + l]) *
               static_cast<double>(b_turned ? b[j * ldb + l] : b[l * ldb + j]);
      }
      float& element = c[i * ldc + j];
      const double before = beta == 0 ? 0 : static_cast<double>(beta * element);
      element = static_cast<float>(static_cast<double>(alpha) * sum + before);
    }
  }
}
