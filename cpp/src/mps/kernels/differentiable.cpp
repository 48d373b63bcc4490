#include "mps/kernels/differentiable.h"

namespace traingraph::mps {
namespace {

class FormOperation final : public Operation {
 public:
  FormOperation(std::string subject_in, Form form)
      : Operation(std::move(subject_in)), form_(std::move(form)) {}
  void emit(Emission& e) const override {
    e.set(0, form_(e, e.inputs[0], Shape(e.results[0].shape)));
  }

 private:
  Form form_;
};

class FormGradientOperation final : public Operation {
 public:
  FormGradientOperation(std::string subject_in, Form form)
      : Operation(std::move(subject_in)), form_(std::move(form)) {}
  void emit(Emission& e) const override {
    const ir::ValueId y = form_(e, e.inputs[1], Shape(e.type(0).shape));
    e.set(0, e.gradients(y, e.inputs[0], {e.inputs[1]})[0]);
  }

 private:
  Form form_;
};

}  // namespace

OperationPtr forward_operation(std::string subject, Form form) {
  return std::make_shared<FormOperation>(std::move(subject), std::move(form));
}
OperationPtr gradient_operation(std::string subject, Form form) {
  return std::make_shared<FormGradientOperation>(std::move(subject), std::move(form));
}

}  // namespace traingraph::mps
