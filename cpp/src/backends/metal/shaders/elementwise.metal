// An interpreter of lists of scalar functions, an element per thread.
#include "common.metal"

// The scalar table's mathematics. Metal has no log1p and no expm1: these take back the rounding of
// 1 + x and of e^x (Kahan's quotients).
struct Math {
  static float exp(float x) { return metal::precise::exp(x); }
  static float log(float x) { return metal::precise::log(x); }
  static float sqrt(float x) { return metal::precise::sqrt(x); }
  static float tanh(float x) { return metal::precise::tanh(x); }
  static float exp2(float x) { return metal::precise::exp2(x); }
  static float log2(float x) { return metal::precise::log2(x); }
  static float sin(float x) { return metal::precise::sin(x); }
  static float cos(float x) { return metal::precise::cos(x); }
  static float tan(float x) { return metal::precise::tan(x); }
  static float asin(float x) { return metal::precise::asin(x); }
  static float acos(float x) { return metal::precise::acos(x); }
  static float atan(float x) { return metal::precise::atan(x); }
  static float sinh(float x) { return metal::precise::sinh(x); }
  static float cosh(float x) { return metal::precise::cosh(x); }
  static float asinh(float x) { return metal::precise::asinh(x); }
  static float acosh(float x) { return metal::precise::acosh(x); }
  static float atanh(float x) { return metal::precise::atanh(x); }
  static float pow(float x, float y) { return metal::precise::pow(x, y); }
  static float floor(float x) { return metal::floor(x); }
  static float ceil(float x) { return metal::ceil(x); }
  static float rint(float x) { return metal::rint(x); }
  static float log1p(float x) {
    const float u = 1.0f + x;
    if (u == 1.0f || !metal::isfinite(u)) return u == 1.0f ? x : log(u);
    return log(u) * (x / (u - 1.0f));
  }
  static float expm1(float x) {
    const float u = exp(x);
    if (u == 1.0f) return x;
    if (u - 1.0f == -1.0f || !metal::isfinite(u)) return u - 1.0f;
    return (u - 1.0f) * (x / log(u));
  }
  // x + x p(x^2) below 0.875, else 1 - e^-p(|x|), which is 1 from 4 on: as on the CPU.
  static float erf(float x) {
    const float size = metal::fabs(x);
    const float z = x * x;
    float p = ((-6.2032551e-4f * z + 5.0321813e-3f) * z - 2.6791463e-2f) * z + 1.1282455e-1f;
    p = (p * z - 3.7612551e-1f) * z + 1.2837915e-1f;
    if (size < 0.875f) return p * x + x;
    const float t = size > 4.0f ? 4.0f : size;  // NaN stays
    float q = ((-2.0099644e-4f * t + 3.0922941e-3f) * t - 2.2420226e-2f) * t + 1.0432752e-1f;
    q = ((q * t + 6.3673723e-1f) * t + 1.1279361f) * t + 1.3357286e-4f;
    return x < 0.0f ? exp(-q) - 1.0f : 1.0f - exp(-q);
  }
  // d gelu / dx of the tanh form: with u = c (x + k x^3), t = tanh u,
  // (1 + t) / 2 + x (1 - t^2) c (1 + 3 k x^2) / 2; the second term is 0 where t has reached 1 or
  // -1.
  static float gelu_derivative(float x) {
    const float c = 0.7978845608f, k = 0.044715f;
    const float t = tanh(c * (x + k * x * x * x));
    const float slope = 1.0f - t * t;
    const float bend = slope == 0.0f ? 0.0f : 0.5f * x * slope * c * (1.0f + 3.0f * k * x * x);
    return 0.5f * (1.0f + t) + bend;
  }
};

enum Function {
#define TRAINGRAPH_SCALAR(name, arity, value_expression, gradient_x, gradient_y) function_##name,
#include "ir/scalar.def"
#undef TRAINGRAPH_SCALAR
};

inline float evaluate(int function, float x, float y, float p, float q) {
  typedef Math M;
  typedef float T;
  switch (function) {
#define TRAINGRAPH_SCALAR(name, arity, value_expression, gradient_x, gradient_y) \
  case function_##name:                                                          \
    return value_expression;
#include "ir/scalar.def"
#undef TRAINGRAPH_SCALAR
  }
  return 0.0f;
}

// Any scalar list over broadcast inputs, an element per thread. Unused operands repeat a used one.
kernel void elementwise(
    device const float* i0 [[buffer(0)]], device const float* i1 [[buffer(1)]],
    device const float* i2 [[buffer(2)]], device const float* i3 [[buffer(3)]],
    device const float* i4 [[buffer(4)]], device const float* i5 [[buffer(5)]],
    device const float* i6 [[buffer(6)]], device const float* i7 [[buffer(7)]],
    device const float* i8 [[buffer(8)]], device const float* i9 [[buffer(9)]],
    device const float* i10 [[buffer(10)]], device const float* i11 [[buffer(11)]],
    device const float* i12 [[buffer(12)]], device const float* i13 [[buffer(13)]],
    device const float* i14 [[buffer(14)]], device const float* i15 [[buffer(15)]],
    device float* r0 [[buffer(16)]], device float* r1 [[buffer(17)]],
    device float* r2 [[buffer(18)]], device float* r3 [[buffer(19)]],
    device float* r4 [[buffer(20)]], device float* r5 [[buffer(21)]],
    device float* r6 [[buffer(22)]], device float* r7 [[buffer(23)]],
    device const shader::Step* code [[buffer(24)]], constant shader::List& list [[buffer(25)]],
    uint element [[thread_position_in_grid]]) {
  device const float* inputs[shader::kListInputs] = {i0, i1, i2,  i3,  i4,  i5,  i6,  i7,
                                                     i8, i9, i10, i11, i12, i13, i14, i15};
  device float* results[shader::kListResults] = {r0, r1, r2, r3, r4, r5, r6, r7};
  float registers[shader::kListRegisters];
  for (int i = 0; i < list.inputs; ++i) {
    registers[i] = inputs[i][offset_of(int(element), list.extents, list.inputs_strides[i])];
  }
  for (int k = 0; k < list.steps; ++k) {
    const int x = code[k].x, y = code[k].y;
    registers[code[k].to] = evaluate(code[k].function, x < 0 ? 0.0f : registers[x],
                                     y < 0 ? 0.0f : registers[y], code[k].p, code[k].q);
  }
  for (int r = 0; r < list.results; ++r) {
    results[r][element] = registers[list.result_registers[r]];
  }
}
