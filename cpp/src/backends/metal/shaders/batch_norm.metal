// Batch normalization and its gradient, a channel per thread, for what is no image of Apple's.
#include "common.metal"

// x (n, c, s) -> mean, inverse deviation and biased variance (c), a channel per thread, in two
// passes: the variance is that of differences from the mean.
kernel void batch_norm_statistics(device const float* x [[buffer(0)]],
                                  device float* mean [[buffer(1)]],
                                  device float* inverse_deviation [[buffer(2)]],
                                  device float* variance [[buffer(3)]],
                                  constant shader::Channels& e [[buffer(4)]],
                                  uint channel [[thread_position_in_grid]]) {
  Sum sum = no_sum();
  for (int n = 0; n < e.n; ++n) {
    for (int s = 0; s < e.s; ++s) add(sum, x[(n * e.c + int(channel)) * e.s + s]);
  }
  const float count = float(e.n * e.s);
  float middle = total(sum) / count;
  if (!metal::isfinite(middle)) {  // the sum was too large, not the mean
    sum = no_sum();
    for (int n = 0; n < e.n; ++n) {
      for (int s = 0; s < e.s; ++s) add(sum, x[(n * e.c + int(channel)) * e.s + s] / count);
    }
    middle = total(sum);
  }
  Sum squares = no_sum();
  for (int n = 0; n < e.n; ++n) {
    for (int s = 0; s < e.s; ++s) {
      const float difference = x[(n * e.c + int(channel)) * e.s + s] - middle;
      add(squares, difference * difference);
    }
  }
  // Squares that are too large are those of shares of the largest difference instead.
  float largest = 1.0f;
  if (!metal::isfinite(total(squares))) {
    for (int n = 0; n < e.n; ++n) {
      for (int s = 0; s < e.s; ++s) {
        const float size = metal::fabs(x[(n * e.c + int(channel)) * e.s + s] - middle);
        if (size > largest && metal::isfinite(size)) largest = size;
      }
    }
    squares = no_sum();
    for (int n = 0; n < e.n; ++n) {
      for (int s = 0; s < e.s; ++s) {
        const float share = (x[(n * e.c + int(channel)) * e.s + s] - middle) / largest;
        add(squares, share * share);
      }
    }
  }
  const float share = total(squares) / count;
  mean[channel] = middle;
  variance[channel] = share * largest * largest;
  inverse_deviation[channel] =
      1.0f / metal::precise::sqrt(share + e.epsilon / largest / largest) / largest;
}

// y = (x - mean) inverse_deviation gamma + beta, an element per thread.
kernel void batch_norm(device const float* x [[buffer(0)]], device const float* mean [[buffer(1)]],
                       device const float* inverse_deviation [[buffer(2)]],
                       device const float* gamma [[buffer(3)]],
                       device const float* beta [[buffer(4)]], device float* y [[buffer(5)]],
                       constant shader::Channels& e [[buffer(6)]],
                       uint element [[thread_position_in_grid]]) {
  const int c = int(element) / e.s % e.c;
  y[element] = (x[element] - mean[c]) * inverse_deviation[c] * gamma[c] + beta[c];
}

// dgamma = sum dy z, dbeta = sum dy with z = (x - mean) inverse_deviation, a channel per thread,
// both overwritten.
kernel void batch_norm_sums(device const float* dy [[buffer(0)]],
                            device const float* x [[buffer(1)]],
                            device const float* mean [[buffer(2)]],
                            device const float* inverse_deviation [[buffer(3)]],
                            device float* dgamma [[buffer(4)]], device float* dbeta [[buffer(5)]],
                            constant shader::Channels& e [[buffer(6)]],
                            uint channel [[thread_position_in_grid]]) {
  Sum scaled = no_sum(), plain = no_sum();
  for (int n = 0; n < e.n; ++n) {
    for (int s = 0; s < e.s; ++s) {
      const int at = (n * e.c + int(channel)) * e.s + s;
      add(scaled, dy[at] * ((x[at] - mean[channel]) * inverse_deviation[channel]));
      add(plain, dy[at]);
    }
  }
  dgamma[channel] = total(scaled);
  dbeta[channel] = total(plain);
}

// dx = gamma inverse_deviation (dy - (dbeta + z dgamma) / M) with M = n s, an element per thread,
// overwritten.
kernel void batch_norm_gradient(
    device const float* dy [[buffer(0)]], device const float* x [[buffer(1)]],
    device const float* mean [[buffer(2)]], device const float* inverse_deviation [[buffer(3)]],
    device const float* gamma [[buffer(4)]], device const float* dgamma [[buffer(5)]],
    device const float* dbeta [[buffer(6)]], device float* dx [[buffer(7)]],
    constant shader::Channels& e [[buffer(8)]], uint element [[thread_position_in_grid]]) {
  const int c = int(element) / e.s % e.c;
  const float z = (x[element] - mean[c]) * inverse_deviation[c];
  const float centred = dy[element] - (dbeta[c] + z * dgamma[c]) / float(e.n * e.s);
  dx[element] = gamma[c] * inverse_deviation[c] * centred;
}

// The gradient's three results where a channel has two values, a channel per thread. With z and -z
// for them dx = gamma inverse_deviation (dy - dy') / 2 (1 - z z) for the first and its negative for
// the second, and 1 - z z = epsilon inverse_deviation^2: less than what rounding mean and deviation
// changes. They are found again from x, whose they are; others are used as they are given.
kernel void batch_norm_gradient_of_two(
    device const float* dy [[buffer(0)]], device const float* x [[buffer(1)]],
    device const float* mean [[buffer(2)]], device const float* inverse_deviation [[buffer(3)]],
    device const float* gamma [[buffer(4)]], device float* dx [[buffer(5)]],
    device float* dgamma [[buffer(6)]], device float* dbeta [[buffer(7)]],
    constant shader::Channels& e [[buffer(8)]], uint channel [[thread_position_in_grid]]) {
  const int c = int(channel);
  const int first = c * e.s, second = e.s == 2 ? first + 1 : first + e.c;
  const float half_sum = 0.5f * x[first] + 0.5f * x[second];
  const float half_distance = 0.5f * x[first] - 0.5f * x[second];
  const float size = metal::fabs(half_distance), unit = size > 1.0f ? size : 1.0f;
  const float share = size / unit;
  const float exact = 1.0f / metal::precise::sqrt(share * share + e.epsilon / unit / unit) / unit;
  const float reach = 8.0f * 1.1920929e-07f;  // of sums in another order
  const float given = inverse_deviation[c];
  const bool own = metal::fabs(mean[c] - half_sum) <= reach * (metal::fabs(half_sum) + size) &&
                   metal::fabs(given - exact) <= reach * exact;
  const float inverse = own ? exact : given;
  const float z = own ? half_distance * inverse : (x[first] - mean[c]) * inverse;
  const float other_z = own ? -z : (x[second] - mean[c]) * inverse;
  const float g = dy[first], other_g = dy[second];
  const float of_gamma = g * z + other_g * other_z, of_beta = g + other_g;
  const float left = 0.5f * (g - other_g) * (e.epsilon * inverse * inverse);
  const float scale = gamma[c] * inverse;
  dx[first] = scale * (own ? left : g - 0.5f * (of_beta + z * of_gamma));
  dx[second] = scale * (own ? -left : other_g - 0.5f * (of_beta + other_z * of_gamma));
  dgamma[c] = of_gamma;
  dbeta[c] = of_beta;
}

// Statistics that another kernel made -> mean, inverse deviation and biased variance (c), a channel
// per thread.
kernel void batch_norm_results(device const float* from_mean [[buffer(0)]],
                               device const float* from_variance [[buffer(1)]],
                               device float* mean [[buffer(2)]],
                               device float* inverse_deviation [[buffer(3)]],
                               device float* variance [[buffer(4)]],
                               constant shader::Statistics& e [[buffer(5)]],
                               uint channel [[thread_position_in_grid]]) {
  mean[channel] = from_mean[channel];
  variance[channel] = from_variance[channel];
  inverse_deviation[channel] = 1.0f / metal::precise::sqrt(from_variance[channel] + e.epsilon);
}
