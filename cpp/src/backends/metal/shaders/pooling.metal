// Pooling and its gradient, an element of the result per thread.
#include "window.metal"

// How many elements an average divides by.
inline float divisor(constant shader::Pooling& a, int row, int column) {
  if (a.counts_padding != 0) return float(a.window.size[0] * a.window.size[1]);
  int rows = 0, columns = 0;
  for (int i = 0; i < a.window.size[0]; ++i) {
    const int h = source_of(a.window, 0, row, i);
    if (h >= 0 && h < a.h) ++rows;
  }
  for (int j = 0; j < a.window.size[1]; ++j) {
    const int w = source_of(a.window, 1, column, j);
    if (w >= 0 && w < a.w) ++columns;
  }
  return float(rows * columns);
}

// x (planes, h, w) -> y (planes, p, q) and the window index of max pooling, one element of y per
// thread. Padding is no element of a window; the first largest element wins, and a NaN wins over
// every number.
kernel void pooling(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                    device uchar* index [[buffer(2)]], constant shader::Pooling& a [[buffer(3)]],
                    uint element [[thread_position_in_grid]]) {
  const int column = int(element) % a.q, row = int(element) / a.q % a.p;
  device const float* plane = x + int(element) / a.q / a.p * a.h * a.w;
  int place = -1;
  float best = 0.0f;
  Sum sum = no_sum();
  for (int i = 0; i < a.window.size[0]; ++i) {
    const int h = source_of(a.window, 0, row, i);
    if (h < 0 || h >= a.h) continue;
    for (int j = 0; j < a.window.size[1]; ++j) {
      const int w = source_of(a.window, 1, column, j);
      if (w < 0 || w >= a.w) continue;
      const float value = plane[h * a.w + w];
      if (a.kind != 0) {
        add(sum, a.kind == 1 ? value : value * value);
      } else if (place < 0 || value > best || (metal::isnan(value) && !metal::isnan(best))) {
        best = value;
        place = i * a.window.size[1] + j;
      }
    }
  }
  if (a.kind == 0) {
    y[element] = best;
    if (a.index_bytes == 1) index[element] = uchar(place);
    if (a.index_bytes == 4) ((device int*)index)[element] = place;
  } else {
    y[element] =
        a.kind == 1 ? total(sum) / divisor(a, row, column) : metal::precise::sqrt(total(sum));
  }
}

// dx (planes, h, w), one of its elements per thread, overwritten. The operands after dy are the
// index of max pooling, or x and y of L2 pooling; others repeat dy.
kernel void pooling_gradient(device const float* dy [[buffer(0)]],
                             device const uchar* index [[buffer(1)]],
                             device const float* x [[buffer(2)]],
                             device const float* y [[buffer(3)]], device float* dx [[buffer(4)]],
                             constant shader::Pooling& a [[buffer(5)]],
                             uint element [[thread_position_in_grid]]) {
  const int w = int(element) % a.w, h = int(element) / a.w % a.h;
  const int first = int(element) / a.w / a.h * a.p * a.q;
  Sum sum = no_sum();
  for (int i = 0; i < a.window.size[0]; ++i) {
    const int row = position_of(a.window, 0, h, i, a.p);
    if (row < 0) continue;
    for (int j = 0; j < a.window.size[1]; ++j) {
      const int column = position_of(a.window, 1, w, j, a.q);
      if (column < 0) continue;
      const int at = first + row * a.q + column;
      if (a.kind == 0) {
        const int place = a.index_bytes == 1 ? int(index[at]) : ((device const int*)index)[at];
        if (place == i * a.window.size[1] + j) add(sum, dy[at]);
      } else if (a.kind == 1) {
        add(sum, dy[at] / divisor(a, row, column));
      } else if (y[at] != 0.0f) {
        // y = sqrt(sum x^2): dx = dy x / y; at 0 there is no derivative, the gradient is 0.
        add(sum, dy[at] * x[element] / y[at]);
      }
    }
  }
  dx[element] = total(sum);
}
