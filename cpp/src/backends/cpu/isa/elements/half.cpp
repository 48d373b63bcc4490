// Numbers of 16 bits to float32 and back: the functions of every backend, in vectors.
#include "backends/cpu/isa/elements/half.h"

#include "runtime/numbers/half.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {
namespace {

template <float (*kWidened)(std::uint16_t)>
__attribute__((flatten)) void widen_all(const std::uint16_t* x, float* y, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = kWidened(x[i]);
}

template <std::uint16_t (*kNarrowed)(float)>
__attribute__((flatten)) void narrow_all(const float* x, std::uint16_t* y, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = kNarrowed(x[i]);
}

}  // namespace

extern const HalfLoops half_loops;
const HalfLoops half_loops{{widen_all<widened_float16>, widen_all<widened_bfloat16>},
                           {narrow_all<narrowed_float16>, narrow_all<narrowed_bfloat16>}};

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
