// Convolution and its gradients, an element of the result per thread.
#include "window.metal"

// x (n, c, h, w), weights (o, c / groups, size) -> y (n, o, p, q), one element of y per thread.
kernel void convolution(device const float* x [[buffer(0)]],
                        device const float* weights [[buffer(1)]], device float* y [[buffer(2)]],
                        constant shader::Convolution& e [[buffer(3)]],
                        uint element [[thread_position_in_grid]]) {
  const int q = int(element) % e.q, p = int(element) / e.q % e.p;
  const int o = int(element) / e.q / e.p % e.o, n = int(element) / e.q / e.p / e.o;
  const int channels = e.c / e.groups;
  const int first = o / (e.o / e.groups) * channels;
  Sum sum = no_sum();
  for (int k = 0; k < channels; ++k) {
    for (int i = 0; i < e.window.size[0]; ++i) {
      const int h = source_of(e.window, 0, p, i);
      if (h < 0 || h >= e.h) continue;
      for (int j = 0; j < e.window.size[1]; ++j) {
        const int w = source_of(e.window, 1, q, j);
        if (w < 0 || w >= e.w) continue;
        add(sum, x[((n * e.c + first + k) * e.h + h) * e.w + w] *
                     weights[((o * channels + k) * e.window.size[0] + i) * e.window.size[1] + j]);
      }
    }
  }
  y[element] = total(sum);
}

// dy (n, o, p, q), weights -> dx (n, c, h, w), one element of dx per thread, overwritten.
kernel void convolution_gradient_data(device const float* dy [[buffer(0)]],
                                      device const float* weights [[buffer(1)]],
                                      device float* dx [[buffer(2)]],
                                      constant shader::Convolution& e [[buffer(3)]],
                                      uint element [[thread_position_in_grid]]) {
  const int w = int(element) % e.w, h = int(element) / e.w % e.h;
  const int c = int(element) / e.w / e.h % e.c, n = int(element) / e.w / e.h / e.c;
  const int channels = e.c / e.groups, results = e.o / e.groups;
  const int k = c % channels, first = c / channels * results;
  Sum sum = no_sum();
  for (int i = 0; i < e.window.size[0]; ++i) {
    const int p = position_of(e.window, 0, h, i, e.p);
    if (p < 0) continue;
    for (int j = 0; j < e.window.size[1]; ++j) {
      const int q = position_of(e.window, 1, w, j, e.q);
      if (q < 0) continue;
      for (int o = first; o < first + results; ++o) {
        add(sum, dy[((n * e.o + o) * e.p + p) * e.q + q] *
                     weights[((o * channels + k) * e.window.size[0] + i) * e.window.size[1] + j]);
      }
    }
  }
  dx[element] = total(sum);
}

// dy (n, o, p, q), x (n, c, h, w) -> dweights, one of its elements per thread, overwritten.
kernel void convolution_gradient_weights(device const float* dy [[buffer(0)]],
                                         device const float* x [[buffer(1)]],
                                         device float* dweights [[buffer(2)]],
                                         constant shader::Convolution& e [[buffer(3)]],
                                         uint element [[thread_position_in_grid]]) {
  const int channels = e.c / e.groups;
  const int j = int(element) % e.window.size[1];
  const int i = int(element) / e.window.size[1] % e.window.size[0];
  const int k = int(element) / e.window.size[1] / e.window.size[0] % channels;
  const int o = int(element) / e.window.size[1] / e.window.size[0] / channels;
  const int c = o / (e.o / e.groups) * channels + k;
  Sum sum = no_sum();
  for (int n = 0; n < e.n; ++n) {
    for (int p = 0; p < e.p; ++p) {
      const int h = source_of(e.window, 0, p, i);
      if (h < 0 || h >= e.h) continue;
      for (int q = 0; q < e.q; ++q) {
        const int w = source_of(e.window, 1, q, j);
        if (w < 0 || w >= e.w) continue;
        add(sum, dy[((n * e.o + o) * e.p + p) * e.q + q] * x[((n * e.c + c) * e.h + h) * e.w + w]);
      }
    }
  }
  dweights[element] = total(sum);
}
