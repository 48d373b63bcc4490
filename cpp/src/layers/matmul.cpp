
#include <traingraph/arithmetic.h>
#include <traingraph/describe.h>

#include "ir/number_text.h"
#include "layers/checks.h"
#include "runtime/numbers/range.h"

namespace traingraph {

MatMul::MatMul(MatMulDescriptor descriptor) : Layer("MatMul"), descriptor_(descriptor) {
  expect_in(kFinite, "MatMul", "alpha", static_cast<double>(descriptor.alpha));
}

std::string MatMul::description() const {
  PlainStream text;
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

const ClassDescription& MatMulDescriptor::class_description() {
  using D = MatMulDescriptor;
  static const ClassDescription description =
      Describing<D>("MLCMatMulDescriptor", "The options of a matrix product.")
          .field("alpha", &D::alpha, "The factor of the product.", &kFinite)
          .field("transposes_x", &D::transposes_x, "Whether the first source is transposed.")
          .field("transposes_y", &D::transposes_y, "Whether the second source is transposed.")
          .made_of_fields(
              "alpha scales the product; each source may be transposed on its last two axes.");
  return description;
}

const ClassDescription& MatMul::class_description() {
  static const ClassDescription description =
      Describing<MatMul, Layer>("MLCMatMulLayer", "alpha * op(x) op(y) on the last two axes.")
          .argument("descriptor", &MatMul::descriptor, "The options of the product.")
          .made_of<MatMulDescriptor>(
              "Shapes: (…, M, K) and (…, K, N) to (…, M, N); leading axes broadcast from the back. "
              "Gradient: reads both sources. Errors: ValueError where inner extents differ or "
              "leading "
              "axes do not broadcast.")
          .sample([](DataType t) {
            return LayerSample{std::make_shared<MatMul>(), {{{2, 2}, t}, {{2, 2}, t}}};
          });
  return description;
}

}  // namespace traingraph
