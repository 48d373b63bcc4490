#include "common.metal"

// x -> y, one element of y per thread.
kernel void reduce(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                   constant shader::Reduce& a [[buffer(2)]],
                   uint element [[thread_position_in_grid]]) {
  const int base = offset_of(int(element), a.kept, a.kept_strides);
  // Squares are those of shares of the largest number: none is too large or too small.
  float largest = 0.0f;
  for (int k = 0; a.kind == 1 && k < a.count; ++k) {
    const float size = metal::fabs(x[base + offset_of(k, a.reduced, a.reduced_strides)]);
    if (size > largest && metal::isfinite(size)) largest = size;
  }
  if (largest == 0.0f) largest = 1.0f;
  Sum sum = no_sum();
  for (int k = 0; k < a.count; ++k) {
    const float value = x[base + offset_of(k, a.reduced, a.reduced_strides)];
    add(sum, a.kind == 0              ? value
             : a.kind == 1            ? value / largest * (value / largest)
             : metal::isfinite(value) ? 0.0f
                                      : 1.0f);
  }
  float whole = total(sum);
  if (a.kind == 0 && !metal::isfinite(whole)) {
    // Parts of it were too large: shares of fewer than 2^31 numbers cannot be.
    const float share = 1.0f / 4294967296.0f;
    sum = no_sum();
    for (int k = 0; k < a.count; ++k) {
      add(sum, x[base + offset_of(k, a.reduced, a.reduced_strides)] * share);
    }
    whole = total(sum) / share;
  }
  y[element] = a.kind == 1 ? largest * metal::precise::sqrt(whole) : whole;
}
