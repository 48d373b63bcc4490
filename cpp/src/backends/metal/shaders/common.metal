#include <metal_stdlib>

#include "backends/metal/shaders/arguments.h"

// Offsets of an element, counted row-major along the extents.
inline int offset_of(int element, constant shader::Extents& extents,
                     constant shader::Strides& strides) {
  int offset = 0;
  for (int axis = extents.rank - 1; axis >= 0; --axis) {
    offset += element % extents.extent[axis] * strides.step[axis];
    element /= extents.extent[axis];
  }
  return offset;
}

// A sum whose rounding errors are added up beside it and put back at the end (Kahan, Babuska,
// Neumaier), so that long sums of float32 keep their last bits.
struct Sum {
  float sum, lost;
};

inline Sum no_sum() {
  Sum none;
  none.sum = 0.0f;
  none.lost = 0.0f;
  return none;
}

inline void add(thread Sum& to, float value) {
  const float next = to.sum + value;
  if (metal::isfinite(next)) {
    to.lost += metal::fabs(to.sum) >= metal::fabs(value) ? (to.sum - next) + value
                                                         : (value - next) + to.sum;
  }
  to.sum = next;
}

inline float total(Sum of) { return of.sum + of.lost; }
