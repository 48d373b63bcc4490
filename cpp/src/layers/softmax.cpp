#include <traingraph/describe.h>
#include <traingraph/errors.h>
#include <traingraph/softmax.h>

#include "layers/checks.h"

namespace traingraph {

Softmax::Softmax(SoftmaxOperation operation, std::int64_t dimension)
    : Layer("Softmax"), operation_(operation), dimension_(dimension) {
  if (dimension < 0) {
    throw InvalidArgument("[Softmax] expected a dimension of at least 0 but got " +
                          std::to_string(dimension));
  }
}

std::string Softmax::description() const {
  const char* kind = operation_ == SoftmaxOperation::kLogSoftmax ? "Log Softmax" : "Softmax";
  return std::string(kind) + " dimension " + std::to_string(dimension_);
}

// x (…, K, …) → the same shape.
void Softmax::emit(Emitter& e) const {
  e.expect_sources(1);
  expect_floating(e);
  if (dimension_ >= e.type(0).rank()) {
    e.fail_shape("expected a dimension below the rank of " + to_string(e.type(0).shape) +
                 " but got " + std::to_string(dimension_));
  }
  const ir::SoftmaxAttributes attributes{operation_ == SoftmaxOperation::kLogSoftmax,
                                         static_cast<int>(dimension_)};
  e.result(ops::apply1(e.graph, ir::Op::softmax, attributes, {e.sources[0]}));
}

const ClassDescription& Softmax::class_description() {
  static const ClassDescription description =
      Describing<Softmax, Layer>("MLCSoftmaxLayer", "Softmax or its logarithm along one axis.")
          .argument("operation", &Softmax::operation, "Softmax or its logarithm.")
          .argument("dimension", &Softmax::dimension, "The axis.", 1)
          .in(kLimit)
          .made_of<SoftmaxOperation, std::int64_t>(
              "Shapes: any (…) to the same. Gradient: reads the result. Errors: ValueError for a "
              "dimension that the source does not have.")
          .sample([](DataType t) {
            return LayerSample{std::make_shared<Softmax>(SoftmaxOperation::kSoftmax),
                               {{{2, 2}, t}}};
          });
  return description;
}

}  // namespace traingraph
