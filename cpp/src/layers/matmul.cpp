#include <sstream>

#include <traingraph/arithmetic.h>

#include "layers/checks.h"
#include "runtime/range.h"

namespace traingraph {

MatMul::MatMul(MatMulDescriptor descriptor) : Layer("MatMul"), descriptor_(descriptor) {
  expect_in(kFinite, "MatMul", "alpha", static_cast<double>(descriptor.alpha));
}

std::string MatMul::description() const {
  std::ostringstream text;
  text << "MatMul";
  if (descriptor_.alpha != 1) text << " alpha " << descriptor_.alpha;
  if (descriptor_.transposes_x) text << " transposes x";
  if (descriptor_.transposes_y) text << " transposes y";
  return text.str();
}

// x (…, M, K), y (…, K, N), transposed where asked → (…, M, N).
void MatMul::emit(Emitter& e) const {
  e.expect_sources(2);
  expect_floating(e);
  e.result(ops::matmul(e.graph, e.sources[0], e.sources[1], descriptor_.transposes_x,
                       descriptor_.transposes_y, static_cast<double>(descriptor_.alpha)));
}

}  // namespace traingraph
