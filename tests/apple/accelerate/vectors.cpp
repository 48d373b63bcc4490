// vDSP and vForce by plain loops. A result may be an operand with its stride, as Apple's own
// programs use them, but not overlap one otherwise.
#include <Accelerate/Accelerate.h>

#include <algorithm>
#include <cmath>

#include "double.h"

using namespace accelerate_double;

namespace {

template <class T>
struct Vector {
  T* first;
  vDSP_Stride stride;

  T& operator[](vDSP_Length at) const { return first[static_cast<vDSP_Stride>(at) * stride]; }
};

template <class T>
Range range_of(const Vector<T>& v, vDSP_Length count) {
  return {v.first, v.stride, count, sizeof(T)};
}

template <class T, class Result>
void require_operand(const char* call, const Vector<T>& operand, const Vector<Result>& result,
                     vDSP_Length count) {
  require(operand.first != nullptr, call, "an operand is null");
  const void* first = operand.first;
  const bool same =
      first == result.first && operand.stride == result.stride && sizeof(T) == sizeof(Result);
  // A stride may step over what another vector has: two channels of one array.
  const bool between = operand.stride == result.stride && operand.stride > 1;
  require(same || between || !overlap(range_of(operand, count), range_of(result, count)), call,
          "the result overlaps an operand");
}

// result[i] = f(i), after the operands have been looked at.
template <class Result, class F, class... Operands>
void map(const char* call, Vector<Result> result, vDSP_Length count, const F& f,
         const Operands&... operands) {
  refuses(call);
  require(result.first != nullptr, call, "the result is null");
  (require_operand(call, operands, result, count), ...);
  for (vDSP_Length i = 0; i < count; ++i) result[i] = static_cast<Result>(f(i));
}

void require_scalars(const char* call, const float* a, const float* b = nullptr) {
  require(a != nullptr || b != nullptr, call, "a scalar is null");
}

// *result = f folded over the elements, in float32 as vDSP's result is.
template <class F>
void fold(const char* call, float* result, vDSP_Length count, float from, const F& f) {
  refuses(call);
  require(result != nullptr, call, "the result is null");
  float total = from;
  for (vDSP_Length i = 0; i < count; ++i) total = f(total, i);
  *result = total;
}

using In = Vector<const float>;
using Out = Vector<float>;

}  // namespace

void vDSP_vclr(float* C, vDSP_Stride IC, vDSP_Length N) {
  map("vDSP_vclr", Out{C, IC}, N, [](vDSP_Length) { return 0.0f; });
}

void vDSP_vfill(const float* A, float* C, vDSP_Stride IC, vDSP_Length N) {
  require_scalars("vDSP_vfill", A);
  const float value = *A;
  map("vDSP_vfill", Out{C, IC}, N, [&](vDSP_Length) { return value; });
}

void vDSP_vneg(const float* A, vDSP_Stride IA, float* C, vDSP_Stride IC, vDSP_Length N) {
  const In a{A, IA};
  map("vDSP_vneg", Out{C, IC}, N, [&](vDSP_Length i) { return -a[i]; }, a);
}

void vDSP_vsq(const float* A, vDSP_Stride IA, float* C, vDSP_Stride IC, vDSP_Length N) {
  const In a{A, IA};
  map("vDSP_vsq", Out{C, IC}, N, [&](vDSP_Length i) { return a[i] * a[i]; }, a);
}

void vDSP_vadd(const float* A, vDSP_Stride IA, const float* B, vDSP_Stride IB, float* C,
               vDSP_Stride IC, vDSP_Length N) {
  const In a{A, IA}, b{B, IB};
  map("vDSP_vadd", Out{C, IC}, N, [&](vDSP_Length i) { return a[i] + b[i]; }, a, b);
}

void vDSP_vmul(const float* A, vDSP_Stride IA, const float* B, vDSP_Stride IB, float* C,
               vDSP_Stride IC, vDSP_Length N) {
  const In a{A, IA}, b{B, IB};
  map("vDSP_vmul", Out{C, IC}, N, [&](vDSP_Length i) { return a[i] * b[i]; }, a, b);
}

void vDSP_vsub(const float* B, vDSP_Stride IB, const float* A, vDSP_Stride IA, float* C,
               vDSP_Stride IC, vDSP_Length N) {
  const In a{A, IA}, b{B, IB};
  map("vDSP_vsub", Out{C, IC}, N, [&](vDSP_Length i) { return a[i] - b[i]; }, a, b);
}

void vDSP_vdiv(const float* B, vDSP_Stride IB, const float* A, vDSP_Stride IA, float* C,
               vDSP_Stride IC, vDSP_Length N) {
  const In a{A, IA}, b{B, IB};
  map("vDSP_vdiv", Out{C, IC}, N, [&](vDSP_Length i) { return a[i] / b[i]; }, a, b);
}

void vDSP_vsadd(const float* A, vDSP_Stride IA, const float* B, float* C, vDSP_Stride IC,
                vDSP_Length N) {
  require_scalars("vDSP_vsadd", B);
  const In a{A, IA};
  map("vDSP_vsadd", Out{C, IC}, N, [&](vDSP_Length i) { return a[i] + *B; }, a);
}

void vDSP_vsmul(const float* A, vDSP_Stride IA, const float* B, float* C, vDSP_Stride IC,
                vDSP_Length N) {
  require_scalars("vDSP_vsmul", B);
  const In a{A, IA};
  map("vDSP_vsmul", Out{C, IC}, N, [&](vDSP_Length i) { return a[i] * *B; }, a);
}

void vDSP_vsdiv(const float* A, vDSP_Stride IA, const float* B, float* C, vDSP_Stride IC,
                vDSP_Length N) {
  require_scalars("vDSP_vsdiv", B);
  const In a{A, IA};
  map("vDSP_vsdiv", Out{C, IC}, N, [&](vDSP_Length i) { return a[i] / *B; }, a);
}

void vDSP_vsma(const float* A, vDSP_Stride IA, const float* B, const float* C, vDSP_Stride IC,
               float* D, vDSP_Stride ID, vDSP_Length N) {
  require_scalars("vDSP_vsma", B);
  const In a{A, IA}, c{C, IC};
  map("vDSP_vsma", Out{D, ID}, N, [&](vDSP_Length i) { return a[i] * *B + c[i]; }, a, c);
}

void vDSP_vsmsa(const float* A, vDSP_Stride IA, const float* B, const float* C, float* D,
                vDSP_Stride ID, vDSP_Length N) {
  require_scalars("vDSP_vsmsa", B);
  require_scalars("vDSP_vsmsa", C);
  const In a{A, IA};
  map("vDSP_vsmsa", Out{D, ID}, N, [&](vDSP_Length i) { return a[i] * *B + *C; }, a);
}

void vDSP_vsmsma(const float* A, vDSP_Stride IA, const float* B, const float* C, vDSP_Stride IC,
                 const float* D, float* E, vDSP_Stride IE, vDSP_Length N) {
  require_scalars("vDSP_vsmsma", B);
  require_scalars("vDSP_vsmsma", D);
  const In a{A, IA}, c{C, IC};
  map("vDSP_vsmsma", Out{E, IE}, N, [&](vDSP_Length i) { return a[i] * *B + c[i] * *D; }, a, c);
}

void vDSP_sve(const float* A, vDSP_Stride IA, float* C, vDSP_Length N) {
  const In a{A, IA};
  fold("vDSP_sve", C, N, 0, [&](float sum, vDSP_Length i) { return sum + a[i]; });
}

void vDSP_svesq(const float* A, vDSP_Stride IA, float* C, vDSP_Length N) {
  const In a{A, IA};
  fold("vDSP_svesq", C, N, 0, [&](float sum, vDSP_Length i) { return sum + a[i] * a[i]; });
}

void vDSP_maxv(const float* A, vDSP_Stride IA, float* C, vDSP_Length N) {
  const In a{A, IA};
  fold("vDSP_maxv", C, N, -HUGE_VALF,
       [&](float largest, vDSP_Length i) { return std::max(largest, a[i]); });
}

void vDSP_dotpr(const float* A, vDSP_Stride IA, const float* B, vDSP_Stride IB, float* C,
                vDSP_Length N) {
  const In a{A, IA}, b{B, IB};
  fold("vDSP_dotpr", C, N, 0, [&](float sum, vDSP_Length i) { return sum + a[i] * b[i]; });
}

void vDSP_vspdp(const float* A, vDSP_Stride IA, double* C, vDSP_Stride IC, vDSP_Length N) {
  const In a{A, IA};
  map("vDSP_vspdp", Vector<double>{C, IC}, N, [&](vDSP_Length i) { return a[i]; }, a);
}

void vDSP_vdpsp(const double* A, vDSP_Stride IA, float* C, vDSP_Stride IC, vDSP_Length N) {
  const Vector<const double> a{A, IA};
  map("vDSP_vdpsp", Out{C, IC}, N, [&](vDSP_Length i) { return a[i]; }, a);
}

void vDSP_vsqD(const double* A, vDSP_Stride IA, double* C, vDSP_Stride IC, vDSP_Length N) {
  const Vector<const double> a{A, IA};
  map("vDSP_vsqD", Vector<double>{C, IC}, N, [&](vDSP_Length i) { return a[i] * a[i]; }, a);
}

void vDSP_vaddD(const double* A, vDSP_Stride IA, const double* B, vDSP_Stride IB, double* C,
                vDSP_Stride IC, vDSP_Length N) {
  const Vector<const double> a{A, IA}, b{B, IB};
  map("vDSP_vaddD", Vector<double>{C, IC}, N, [&](vDSP_Length i) { return a[i] + b[i]; }, a, b);
}

// --- vForce ------------------------------------------------------------------------------------

namespace {

template <class F>
void by_element(const char* call, float* y, const float* x, const int* n, const F& f) {
  require(n != nullptr && *n >= 0, call, "the number of elements is null or negative");
  const In a{x, 1};
  map(call, Out{y, 1}, static_cast<vDSP_Length>(*n), [&](vDSP_Length i) { return f(a[i]); }, a);
}

}  // namespace

void vvexpf(float* y, const float* x, const int* n) {
  const bool clears = reads("nan");
  by_element("vvexpf", y, x, n, [&](float v) { return clears && std::isnan(v) ? 0 : std::exp(v); });
}
void vvlogf(float* y, const float* x, const int* n) {
  by_element("vvlogf", y, x, n, [](float v) { return std::log(v); });
}
void vvsqrtf(float* y, const float* x, const int* n) {
  by_element("vvsqrtf", y, x, n, [](float v) { return std::sqrt(v); });
}
void vvrsqrtf(float* y, const float* x, const int* n) {
  by_element("vvrsqrtf", y, x, n, [](float v) { return 1 / std::sqrt(v); });
}
void vvrecf(float* y, const float* x, const int* n) {
  by_element("vvrecf", y, x, n, [](float v) { return 1 / v; });
}
void vvtanhf(float* y, const float* x, const int* n) {
  by_element("vvtanhf", y, x, n, [](float v) { return std::tanh(v); });
}
