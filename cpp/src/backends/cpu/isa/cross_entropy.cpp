// Softmax cross entropy and its gradient over rows of classes, with labels that are distributions
// or integer classes.
#include "backends/cpu/isa/class_rows.h"
#include "backends/cpu/isa/math.h"
#include "backends/cpu/isa/softmax.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {

void cross_entropy(const CrossEntropy& op, const float* x, const void* labels, float* loss,
                   float* logarithm, std::int64_t begin, std::int64_t end);
void cross_entropy_gradient(const CrossEntropy& op, const float* dloss, const float* x,
                            const void* labels, const float* logarithm, float* dx,
                            std::int64_t begin, std::int64_t end);

namespace {

std::int64_t class_at(const CrossEntropy& op, const void* labels, std::int64_t position) {
  return op.labels == Labels::int64 ? static_cast<const std::int64_t*>(labels)[position]
                                    : static_cast<const std::int32_t*>(labels)[position];
}

bool is_class(const CrossEntropy& op, std::int64_t label) {
  return label >= 0 && label < op.rows.classes;
}

// A term of the loss; a target of 0 adds nothing, even where x is not finite.
// x is less the row's largest.
TRAINGRAPH_INLINE Vector loss_term(const CrossEntropy& op, Vector t, Vector x, Vector logarithm) {
  const Vector target = t * op.scale + op.share;
  return target == 0.0f ? Vector{} : target * (logarithm - x);
}

struct ExpTerm {
  const float* x;
  Vector top;
  TRAINGRAPH_INLINE Vector operator()(std::int64_t k) const {
    return exponential(load(x + k) - top);
  }
  TRAINGRAPH_INLINE Vector operator()(std::int64_t k, const Partial& part) const {
    return part.keep(exponential(part.load(x + k) - top));
  }
};

// t may be null: only the share that every class has.
struct LossTerm {
  const CrossEntropy& op;
  const float* x;
  const float* t;
  Vector top, logarithm;
  TRAINGRAPH_INLINE Vector operator()(std::int64_t k) const {
    return loss_term(op, t == nullptr ? Vector{} : load(t + k), load(x + k) - top, logarithm);
  }
  TRAINGRAPH_INLINE Vector operator()(std::int64_t k, const Partial& part) const {
    return part.keep(loss_term(op, t == nullptr ? Vector{} : part.load(t + k),
                               part.load(x + k) - top, logarithm));
  }
};

float row_loss(const CrossEntropy& op, const float* x, const void* labels, std::int64_t row,
               float top, float logarithm) {
  const std::int64_t n = op.rows.classes;
  if (op.labels == Labels::distribution) {
    const float* t = static_cast<const float*>(labels) + row * n;
    return static_cast<float>(sum_row(n, LossTerm{op, x, t, splat(top), splat(logarithm)}));
  }
  const std::int64_t label = class_at(op, labels, row);
  if (label == -1) return 0;
  double loss = 0;
  if (op.share != 0) loss = sum_row(n, LossTerm{op, x, nullptr, splat(top), splat(logarithm)});
  if (is_class(op, label)) loss += static_cast<double>(op.scale * (logarithm - (x[label] - top)));
  return static_cast<float>(loss);
}

// Rows in blocks, so that logarithms are taken side by side.
void forward_rows(const CrossEntropy& op, const float* x, const void* labels, float* loss,
                  float* logarithm, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kBlock = 64;
  const std::int64_t n = op.rows.classes;
  for (; begin < end; begin += kBlock) {
    const std::int64_t rows = end - begin < kBlock ? end - begin : kBlock;
    float sums[kBlock], tops[kBlock];
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* row = x + (begin + r) * n;
      tops[r] = largest_of(row, n);
      sums[r] = static_cast<float>(sum_row(n, ExpTerm{row, splat(tops[r])}));
    }
#pragma omp simd
    for (std::int64_t r = 0; r < rows; ++r) logarithm[begin + r] = Math::log(sums[r]);
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* row = x + (begin + r) * n;
      loss[begin + r] = row_loss(op, row, labels, begin + r, tops[r], logarithm[begin + r]);
    }
  }
}

void forward_positions(const CrossEntropy& op, const float* x, const void* labels, float* loss,
                       float* logarithm, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = op.rows.classes, inner = op.rows.inner;
  each_position_vector(
      op.rows, begin, end, [&](std::int64_t at, std::int64_t position, std::int64_t count) {
        const Partial part(count);
        auto read = [&](const float* from, std::int64_t k)
                        __attribute__((always_inline)) { return part.load(from + at + k * inner); };
        auto read_x = [&](std::int64_t k) __attribute__((always_inline)) { return read(x, k); };
        const Vector top = largest_of_positions(n, read_x);
        Vector log_sum = sum_positions(n, [&](std::int64_t k) __attribute__((always_inline)) {
          return exponential(read(x, k) - top);
        });
        for (int i = 0; i < kLanes; ++i) log_sum[i] = Math::log(log_sum[i]);
        part.store(logarithm + position, log_sum);
        const bool distribution = op.labels == Labels::distribution;
        Vector total{};
        if (distribution || op.share != 0) {
          const float* t = static_cast<const float*>(labels);
          total = sum_positions(n, [&](std::int64_t k) __attribute__((always_inline)) {
            return loss_term(op, distribution ? read(t, k) : Vector{}, read(x, k) - top, log_sum);
          });
        }
        for (std::int64_t i = 0; i < count && !distribution; ++i) {
          const std::int64_t label = class_at(op, labels, position + i);
          if (is_class(op, label)) {
            total[i] += op.scale * (log_sum[i] - (x[at + i + label * inner] - top[i]));
          }
          if (label == -1) total[i] = 0;
        }
        part.store(loss + position, total);
      });
}

// x is less the row's largest.
TRAINGRAPH_INLINE Vector slope(Vector x, Vector logarithm, Vector total, Vector target,
                               Vector dloss) {
  const Vector share = exponential(x - logarithm) * total;
  return dloss * ((total == 0.0f ? Vector{} : share) - target);
}

void gradient_rows(const CrossEntropy& op, const float* dloss, const float* x, const void* labels,
                   const float* logarithm, float* dx, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = op.rows.classes;
  for (std::int64_t row = begin; row < end; ++row) {
    const float* from = x + row * n;
    float* to = dx + row * n;
    const float* t = nullptr;
    std::int64_t label = -1;
    double total = static_cast<double>(op.share) * static_cast<double>(n);
    if (op.labels == Labels::distribution) {
      t = static_cast<const float*>(labels) + row * n;
      struct {
        const float* t;
        TRAINGRAPH_INLINE Vector operator()(std::int64_t k) const { return load(t + k); }
        TRAINGRAPH_INLINE Vector operator()(std::int64_t k, const Partial& part) const {
          return part.load(t + k);
        }
      } const term{t};
      total += static_cast<double>(op.scale) * sum_row(n, term);
    } else {
      label = class_at(op, labels, row);
      if (is_class(op, label)) total += static_cast<double>(op.scale);
    }
    const bool ignored = op.labels != Labels::distribution && label == -1;
    if (ignored || dloss[row] == 0 || (t == nullptr && total == 0)) {
      for (std::int64_t k = 0; k < n; ++k) to[k] = 0;
      continue;
    }
    const float largest = largest_of(from, n);
    const Vector top = splat(largest), log_sum = splat(logarithm[row]);
    if (t == nullptr) {
      // Of all classes but the row's own, which follows.
      const float factor = dloss[row];
      const Vector share = splat(factor * static_cast<float>(total));
      const Vector less = splat(op.share == 0 ? 0 : factor * op.share);
      each_vector(
          0, n,
          [&](std::int64_t k) {
            store(to + k, exponential(load(from + k) - top - log_sum) * share - less);
          },
          [&](std::int64_t k, const Partial& part) {
            part.store(to + k, exponential(part.load(from + k) - top - log_sum) * share - less);
          });
    } else {
      const Vector sum = splat(static_cast<float>(total));
      const Vector factor = splat(dloss[row]), share = splat(op.share);
      each_vector(
          0, n,
          [&](std::int64_t k) {
            const Vector target = load(t + k) * op.scale + share;
            store(to + k, slope(load(from + k) - top, log_sum, sum, target, factor));
          },
          [&](std::int64_t k, const Partial& part) {
            const Vector target = part.load(t + k) * op.scale + share;
            part.store(to + k, slope(part.load(from + k) - top, log_sum, sum, target, factor));
          });
    }
    if (is_class(op, label)) {
      const float e = Math::exp((from[label] - largest) - logarithm[row]);
      to[label] = dloss[row] * (e * static_cast<float>(total) - (op.scale + op.share));
    }
  }
}

void gradient_positions(const CrossEntropy& op, const float* dloss, const float* x,
                        const void* labels, const float* logarithm, float* dx, std::int64_t begin,
                        std::int64_t end) {
  const std::int64_t n = op.rows.classes, inner = op.rows.inner;
  const bool distribution = op.labels == Labels::distribution;
  each_position_vector(
      op.rows, begin, end, [&](std::int64_t at, std::int64_t position, std::int64_t count) {
        const Partial part(count);
        const float* t = static_cast<const float*>(labels);
        const Vector log_sum = part.load(logarithm + position);
        const Vector top =
            largest_of_positions(n, [&](std::int64_t k) __attribute__((always_inline)) {
              return part.load(x + at + k * inner);
            });
        Vector factor = part.load(dloss + position);
        Vector total = splat(op.share * static_cast<float>(n));
        if (distribution) {
          total += op.scale * sum_positions(n, [&](std::int64_t k) __attribute__((always_inline)) {
                     return part.load(t + at + k * inner);
                   });
        }
        // The target of a lane's own class is one sum here and below: with a single class it
        // cancels.
        Integers own = Integers{} - 1;
        for (std::int64_t i = 0; i < count && !distribution; ++i) {
          const std::int64_t label = class_at(op, labels, position + i);
          if (label == -1) factor[i] = 0;
          if (!is_class(op, label)) continue;
          own[i] = static_cast<std::int32_t>(label);
          total[i] += op.scale;
        }
        for (std::int64_t k = 0; k < n; ++k) {
          const std::int64_t offset = at + k * inner;
          const Vector label = distribution                          ? part.load(t + offset)
                               : own == static_cast<std::int32_t>(k) ? splat(1.0f)
                                                                     : Vector{};
          const Vector target = label * op.scale + op.share;
          const Vector found = slope(part.load(x + offset) - top, log_sum, total, target, factor);
          part.store(dx + offset, factor == 0.0f ? Vector{} : found);
        }
      });
}

}  // namespace

void cross_entropy(const CrossEntropy& op, const float* x, const void* labels, float* loss,
                   float* logarithm, std::int64_t begin, std::int64_t end) {
  (op.rows.inner == 1 ? forward_rows : forward_positions)(op, x, labels, loss, logarithm, begin,
                                                          end);
}

void cross_entropy_gradient(const CrossEntropy& op, const float* dloss, const float* x,
                            const void* labels, const float* logarithm, float* dx,
                            std::int64_t begin, std::int64_t end) {
  (op.rows.inner == 1 ? gradient_rows : gradient_positions)(op, dloss, x, labels, logarithm, dx,
                                                            begin, end);
}

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
