#include "common.metal"

// Source row (axis 0) or column (axis 1) under a tap of the window at a position.
inline int source_of(constant shader::Window& window, int axis, int position, int tap) {
  return position * window.stride[axis] + tap * window.dilation[axis] - window.padding[axis];
}

// The position whose tap meets this source row or column; -1 where there is none among `count`.
inline int position_of(constant shader::Window& window, int axis, int source, int tap, int count) {
  const int at = source + window.padding[axis] - tap * window.dilation[axis];
  if (at < 0 || at % window.stride[axis] != 0) return -1;
  const int found = at / window.stride[axis];
  return found < count ? found : -1;
}
