#pragma once

#include <cstdint>

namespace traingraph::cpu {

// A dense tensor as (outer, classes, inner), softmax along the middle. Work comes in units: rows if
// inner is 1, else (outer, up to kUnitPositions neighbouring positions).
struct ClassRows {
  std::int64_t classes;
  std::int64_t inner;
};
inline constexpr std::int64_t kUnitPositions = 16;

enum class Labels : std::uint8_t { distribution, int32, int64 };

// Targets t' = t scale + share.
struct CrossEntropy {
  ClassRows rows;
  Labels labels;
  float scale;
  float share;
};

struct SoftmaxLoops {
  // y = e^x / Σ e^x, or its logarithm
  void (*forward)(ClassRows rows, const float* x, float* y, bool logarithm, std::int64_t begin,
                  std::int64_t end);
  // dx = y (dy - Σ dy y), or dy - e^y Σ dy
  void (*gradient)(ClassRows rows, const float* dy, const float* y, float* dx, bool logarithm,
                   std::int64_t begin, std::int64_t end);
  // loss = Σ t' (logarithm - (x - max x)), logarithm = log Σ e^(x - max x); class -1 ignores its
  // position
  void (*cross_entropy)(const CrossEntropy& op, const float* x, const void* labels, float* loss,
                        float* logarithm, std::int64_t begin, std::int64_t end);
  // dx = dloss (e^(x - max x - logarithm) Σ t' - t')
  void (*cross_entropy_gradient)(const CrossEntropy& op, const float* dloss, const float* x,
                                 const void* labels, const float* logarithm, float* dx,
                                 std::int64_t begin, std::int64_t end);
};

}  // namespace traingraph::cpu
