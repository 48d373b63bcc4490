// What moves elements: slices, concatenations, padding, transposition, reordering, selection.
#include "common.metal"

// Runs of the source to their places in runs of the target: slices and parts of a concatenation.
kernel void copy_runs(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                      constant shader::Runs& a [[buffer(2)]],
                      uint element [[thread_position_in_grid]]) {
  const int o = int(element) / a.run, k = int(element) % a.run;
  y[o * a.target_run + a.target_at + k] = x[o * a.source_run + a.source_at + k];
}

// Runs of the source between zeros, an element of the target per thread.
kernel void pad_runs(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                     constant shader::Padded& a [[buffer(2)]],
                     uint element [[thread_position_in_grid]]) {
  const int o = int(element) / a.row, at = int(element) % a.row, k = at - a.before;
  y[o * a.target_run + a.target_at + at] = k >= 0 && k < a.run ? x[o * a.run + k] : 0.0f;
}

// Each element along the extents from its place in the source to its place in the target.
kernel void move(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                 constant shader::Moved& a [[buffer(2)]],
                 uint element [[thread_position_in_grid]]) {
  y[offset_of(int(element), a.extents, a.target)] = x[offset_of(int(element), a.extents, a.source)];
}

// Two results of one kernel to their places.
kernel void copy_pair(device const float* x0 [[buffer(0)]], device const float* x1 [[buffer(1)]],
                      device float* y0 [[buffer(2)]], device float* y1 [[buffer(3)]],
                      uint element [[thread_position_in_grid]]) {
  y0[element] = x0[element];
  y1[element] = x1[element];
}

kernel void fill_zero(device float* y [[buffer(0)]], uint element [[thread_position_in_grid]]) {
  y[element] = 0.0f;
}

inline int place_of(int element, constant shader::Reorder& a, int count,
                    constant shader::Dimension* dimensions) {
  int coordinates[shader::kAxes];
  for (int axis = a.extents.rank - 1; axis >= 0; --axis) {
    coordinates[axis] = element % a.extents.extent[axis];
    element /= a.extents.extent[axis];
  }
  int place = 0;
  for (int k = 0; k < count; ++k) {
    place += coordinates[dimensions[k].axis] / dimensions[k].divisor % dimensions[k].extent *
             dimensions[k].stride;
  }
  return place;
}

// The same tensor from one layout to another, an element per thread; padding stays as it is.
kernel void reorder(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                    constant shader::Reorder& a [[buffer(2)]],
                    uint element [[thread_position_in_grid]]) {
  y[place_of(int(element), a, a.to_count, a.to)] =
      x[place_of(int(element), a, a.from_count, a.from)];
}

// condition ? x : y, each read through strides that are 0 along broadcast axes; one of them may be
// zero instead.
kernel void select_elements(device const uchar* condition [[buffer(0)]],
                            device const float* x [[buffer(1)]],
                            device const float* y [[buffer(2)]], device float* result [[buffer(3)]],
                            constant shader::Select& a [[buffer(4)]],
                            uint element [[thread_position_in_grid]]) {
  const bool first = condition[offset_of(int(element), a.extents, a.condition)] != 0;
  if (a.without == (first ? 1 : 2)) {
    result[element] = 0.0f;
  } else {
    result[element] = first ? x[offset_of(int(element), a.extents, a.x)]
                            : y[offset_of(int(element), a.extents, a.y)];
  }
}
