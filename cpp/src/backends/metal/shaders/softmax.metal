#include "common.metal"

inline int first_of(uint row, constant shader::Rows& a) {
  return int(row) / a.inner * a.extent * a.inner + int(row) % a.inner;
}

// x -> y: e^x / sum e^x or x - log sum e^x along the axis, a row per thread.
kernel void softmax(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                    constant shader::Rows& a [[buffer(2)]], uint row [[thread_position_in_grid]]) {
  const int first = first_of(row, a);
  float largest = x[first];
  for (int k = 1; k < a.extent; ++k) {
    const float value = x[first + k * a.inner];
    largest = largest < value ? value : largest;
  }
  Sum sum = no_sum();
  for (int k = 0; k < a.extent; ++k) {
    add(sum, metal::precise::exp(x[first + k * a.inner] - largest));
  }
  const float whole = total(sum);
  for (int k = 0; k < a.extent; ++k) {
    const int at = first + k * a.inner;
    y[at] = a.logarithm != 0 ? x[at] - largest - metal::precise::log(whole)
                             : metal::precise::exp(x[at] - largest) / whole;
  }
}

// dy, y -> dx, overwritten: y (dy - sum dy y), or dy - e^y sum dy for the logarithm; a row per
// thread.
kernel void softmax_gradient(device const float* dy [[buffer(0)]],
                             device const float* y [[buffer(1)]], device float* dx [[buffer(2)]],
                             constant shader::Rows& a [[buffer(3)]],
                             uint row [[thread_position_in_grid]]) {
  const int first = first_of(row, a);
  Sum sum = no_sum();
  for (int k = 0; k < a.extent; ++k) {
    const int at = first + k * a.inner;
    add(sum, a.logarithm != 0 ? dy[at] : dy[at] * y[at]);
  }
  const float whole = total(sum);
  for (int k = 0; k < a.extent; ++k) {
    const int at = first + k * a.inner;
    dx[at] =
        a.logarithm != 0 ? dy[at] - metal::precise::exp(y[at]) * whole : y[at] * (dy[at] - whole);
  }
}
