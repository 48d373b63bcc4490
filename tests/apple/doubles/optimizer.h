// What the optimizers share.
#pragma once
#include <algorithm>

#include "image.h"
#include "matrix.h"

namespace apple {

// What all optimizers do to a gradient first.
struct Preparation {
  float rescale, clip_min, clip_max, regularization;
  bool clips;
  MPSNNRegularizationType kind;

  double operator()(double gradient, double value) const {
    if (clips) gradient = std::clamp<double>(gradient, clip_min, clip_max);
    gradient *= rescale;
    if (kind == MPSNNRegularizationTypeL1)
      return gradient + (value > 0 ? regularization : value < 0 ? -regularization : 0);
    if (kind == MPSNNRegularizationTypeL2) return gradient + regularization * value;
    return gradient;
  }
};

inline void expect_length(const Matrix& vector, NSUInteger length, const char* what) {
  if (vector.rows != 1 || vector.columns != length) broken(what, "its vectors differ in length");
}

}  // namespace apple

@interface MPSNNOptimizer (AppleDouble)
- (apple::Preparation)apple_preparation;
@end
