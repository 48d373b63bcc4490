// One loop per scalar function and kind of operands.
#include "backends/cpu/isa/elementwise.h"

#include "backends/cpu/isa/compiled.h"
#include "backends/cpu/isa/math.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {
namespace {

// Function: a row of scalar.def. Numbers are read before the loop, which may overwrite them.
template <class Function, int kArity, bool kNumberX, bool kNumberY>
__attribute__((flatten))  // a call that is not inlined would keep the loop scalar
void function_loop(float* r, const float* x, const float* y, Immediates immediates,
                   std::int64_t n) {
  const float number_x = kNumberX ? *x : 0;
  const float number_y = kNumberY ? *y : 0;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const float at_x = kNumberX ? number_x : (kArity > 0 ? x[i] : 0);
    const float at_y = kNumberY ? number_y : (kArity > 1 ? y[i] : 0);
    r[i] = Function::template value<float>(at_x, at_y, immediates.p, immediates.q);
  }
}

template <class Function, int kArity>
constexpr FunctionLoops loops_of() {
  FunctionLoop arrays = function_loop<Function, kArity, false, false>;
  if constexpr (kArity < 2) return {arrays, arrays, arrays};
  return {arrays, function_loop<Function, kArity, false, true>,
          function_loop<Function, kArity, true, false>};
}

constexpr FunctionLoops kFunctions[] = {
#define TRAINGRAPH_SCALAR(name, arity, value, gradient_x, gradient_y) \
  loops_of<ir::scalar::name<Math>, arity>(),
#include "ir/scalar.def"
#undef TRAINGRAPH_SCALAR
};

}  // namespace

extern const ElementwiseLoops elementwise_loops;
const ElementwiseLoops elementwise_loops{kFunctions, compiled_loops.data()};

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
