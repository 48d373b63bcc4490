// Softmax and log softmax along one axis and their gradient, vectorized over classes or over
// positions.
#include "backends/cpu/isa/softmax.h"

#include "backends/cpu/isa/class_rows.h"
#include "backends/cpu/isa/math.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {

extern const SoftmaxLoops softmax_loops;
void cross_entropy(const CrossEntropy& op, const float* x, const void* labels, float* loss,
                   float* logarithm, std::int64_t begin, std::int64_t end);
void cross_entropy_gradient(const CrossEntropy& op, const float* dloss, const float* x,
                            const void* labels, const float* logarithm, float* dx,
                            std::int64_t begin, std::int64_t end);

namespace {

void forward_row(const float* x, float* y, std::int64_t n, bool logarithm) {
  const float top = largest_of(x, n);
  // The logarithm needs only the sum; y is written twice otherwise.
  struct {
    const float* x;
    float* y;
    Vector top;
    bool writes;
    TRAINGRAPH_INLINE Vector operator()(std::int64_t k) const {
      const Vector e = exponential(load(x + k) - top);
      if (writes) store(y + k, e);
      return e;
    }
    TRAINGRAPH_INLINE Vector operator()(std::int64_t k, const Partial& part) const {
      const Vector e = part.keep(exponential(part.load(x + k) - top));
      if (writes) part.store(y + k, e);
      return e;
    }
  } const term{x, y, splat(top), !logarithm};
  const double sum = sum_row(n, term);
  if (logarithm) {
    const auto tail = static_cast<float>(__builtin_log(sum));
#pragma omp simd
    for (std::int64_t k = 0; k < n; ++k) y[k] = (x[k] - top) - tail;
    return;
  }
  const auto factor = static_cast<float>(1 / sum);
#pragma omp simd
  for (std::int64_t k = 0; k < n; ++k) y[k] *= factor;
}

void forward(ClassRows rows, const float* x, float* y, bool logarithm, std::int64_t begin,
             std::int64_t end) {
  const std::int64_t n = rows.classes;
  if (rows.inner == 1) {
    for (std::int64_t row = begin; row < end; ++row) {
      forward_row(x + row * n, y + row * n, n, logarithm);
    }
    return;
  }
  each_position_vector(rows, begin, end, [&](std::int64_t at, std::int64_t, std::int64_t count) {
    const Partial part(count);
    auto read = [&](std::int64_t k)
                    __attribute__((always_inline)) { return part.load(x + at + k * rows.inner); };
    const Vector top = largest_of_positions(n, read);
    const Vector sum = sum_positions(n, [&](std::int64_t k) __attribute__((always_inline)) {
      return exponential(read(k) - top);
    });
    if (logarithm) {
      Vector tail;
      for (int i = 0; i < kLanes; ++i) tail[i] = Math::log(sum[i]);
      for (std::int64_t k = 0; k < n; ++k) {
        part.store(y + at + k * rows.inner, (read(k) - top) - tail);
      }
      return;
    }
    const Vector factor = 1.0f / sum;
    for (std::int64_t k = 0; k < n; ++k) {
      part.store(y + at + k * rows.inner, exponential(read(k) - top) * factor);
    }
  });
}

struct GradientTerm {
  const float* dy;
  const float* y;
  bool logarithm;
  TRAINGRAPH_INLINE Vector operator()(std::int64_t k) const {
    const Vector g = load(dy + k);
    return logarithm ? g : g * load(y + k);
  }
  TRAINGRAPH_INLINE Vector operator()(std::int64_t k, const Partial& part) const {
    const Vector g = part.load(dy + k);
    return logarithm ? g : g * part.load(y + k);
  }
};

TRAINGRAPH_INLINE Vector gradient_of(Vector dy, Vector y, Vector sum, bool logarithm) {
  return logarithm ? dy - exponential(y) * sum : y * (dy - sum);
}

void gradient(ClassRows rows, const float* dy, const float* y, float* dx, bool logarithm,
              std::int64_t begin, std::int64_t end) {
  const std::int64_t n = rows.classes;
  if (rows.inner == 1) {
    for (std::int64_t at = begin * n; at < end * n; at += n) {
      const auto number = static_cast<float>(sum_row(n, GradientTerm{dy + at, y + at, logarithm}));
      const Vector sum = splat(number);
      each_vector(
          at, at + n,
          [&](std::int64_t k) {
            store(dx + k, gradient_of(load(dy + k), load(y + k), sum, logarithm));
          },
          [&](std::int64_t k, const Partial& part) {
            part.store(dx + k, gradient_of(part.load(dy + k), part.load(y + k), sum, logarithm));
          });
    }
    return;
  }
  each_position_vector(rows, begin, end, [&](std::int64_t at, std::int64_t, std::int64_t count) {
    const Partial part(count);
    const Vector sum = sum_positions(n, [&](std::int64_t k) __attribute__((always_inline)) {
      const Vector g = part.load(dy + at + k * rows.inner);
      return logarithm ? g : g * part.load(y + at + k * rows.inner);
    });
    for (std::int64_t k = 0; k < n; ++k) {
      const std::int64_t i = at + k * rows.inner;
      part.store(dx + i, gradient_of(part.load(dy + i), part.load(y + i), sum, logarithm));
    }
  });
}

}  // namespace

const SoftmaxLoops softmax_loops{forward, gradient, cross_entropy, cross_entropy_gradient};

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
