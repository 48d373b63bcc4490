#include <traingraph/mps/softmax.h>

#include "mps/emission.h"

namespace traingraph::mps {
namespace {

class SoftmaxOperation final : public Operation {
 public:
  SoftmaxOperation(const std::string& subject_in, bool logarithm)
      : Operation(subject_in), attributes_{logarithm, 1} {}
  void emit(Emission& e) const override {
    e.set(0, ops::apply1(e.graph, ir::Op::softmax, attributes_, {e.inputs[0]}));
  }

 private:
  ir::SoftmaxAttributes attributes_;
};

// dy, y → dx: the gradient op reads the result, as this kernel does.
class SoftmaxGradientOperation final : public Operation {
 public:
  SoftmaxGradientOperation(const std::string& subject_in, bool logarithm)
      : Operation(subject_in), attributes_{logarithm, 1} {}
  void emit(Emission& e) const override {
    e.set(0,
          ops::apply1(e.graph, ir::Op::softmax_gradient, attributes_, {e.inputs[0], e.inputs[1]}));
  }

 private:
  ir::SoftmaxAttributes attributes_;
};

}  // namespace

OperationPtr CNNSoftMax::make_operation() const {
  return std::make_shared<SoftmaxOperation>(description(), logarithm_);
}
OperationPtr CNNSoftMaxGradient::make_operation() const {
  return std::make_shared<SoftmaxGradientOperation>(description(), logarithm_);
}

}  // namespace traingraph::mps
