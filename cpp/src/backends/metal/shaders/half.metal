#include "common.metal"

// 16-bit numbers to float32 and back, rounded to the nearest, ties to even; bfloat16 where a.kind
// is 1, else float16. Where it is 2, the 16 bits are the upper ones, and come back as they went.
inline float widened(ushort bits, int kind) {
  using namespace metal;  // where as_type is depends on the version
  return kind != 0 ? as_type<float>(uint(bits) << 16) : float(as_type<half>(bits));
}

inline ushort narrowed(float number, int kind) {
  using namespace metal;
  if (kind == 0) return as_type<ushort>(half(number));
  const uint bits = as_type<uint>(number);
  if (kind == 2) return ushort(bits >> 16);
  if (metal::isnan(number)) return ushort((bits >> 16) | 0x40u);
  return ushort((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

kernel void widen(device const ushort* x [[buffer(0)]], device float* y [[buffer(1)]],
                  constant shader::Half& a [[buffer(2)]],
                  uint element [[thread_position_in_grid]]) {
  y[element] = widened(x[element], a.kind);
}

kernel void narrow(device const float* x [[buffer(0)]], device ushort* y [[buffer(1)]],
                   constant shader::Half& a [[buffer(2)]],
                   uint element [[thread_position_in_grid]]) {
  y[element] = narrowed(x[element], a.kind);
}
