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
