#pragma once

#include <traingraph/mps/dropout.h>

#include "runtime/backend.h"

namespace traingraph::mps {

// Whether a backend's own dropout kernels keep what is promised of masks: that they are a function
// of seed, count of encodings and element, in whichever run and for both kernels. No ops give their
// numbers, so they are looked at: found out once per process for each probability, strides, and
// shape of all images (N, C, H, W) that are encoded together. Forward and gradient kernel ask the
// same.
bool keeps_its_masks(const Backend& backend, DropoutParameters parameters, const Shape& images);

}  // namespace traingraph::mps
