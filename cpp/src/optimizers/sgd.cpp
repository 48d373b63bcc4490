// Stochastic gradient descent with momentum, also Nesterov's, as a scalar list.
#include "ir/number_text.h"
#include "optimizers/describe_optimizer.h"
#include "optimizers/update_emitter.h"
#include "runtime/numbers/range.h"

namespace traingraph {

SGD::SGD(OptimizerDescriptor descriptor, float momentum, bool nesterov)
    : Optimizer(std::move(descriptor), "SGD"), momentum_(momentum), nesterov_(nesterov) {
  expect_in(kShare, "SGD", "momentum_scale", momentum);
}

OptimizerPtr SGD::copy() const { return std::shared_ptr<SGD>(new SGD(*this)); }

std::string SGD::description() const {
  PlainStream text;
  text << "SGD(learning_rate=" << learning_rate() << ", momentum=" << momentum_
       << (nesterov_ ? ", nesterov" : "") << ")";
  return text.str();
}

std::vector<std::string> SGD::slots() const {
  if (momentum_ == 0.0f) return {};
  return {"momentum"};
}

// v = m v + lr g, p -= v; Nesterov: v = m v + g, p -= lr (g + m v)
void SGD::emit(UpdateEmitter& e) const {
  const int g = e.gradient();
  const int lr = e.learning_rate();
  if (momentum_ == 0.0f) {
    e.set_parameter(e.subtract(e.parameter(), e.multiply(lr, g)));
    return;
  }
  const double m = momentum_;
  if (nesterov_) {
    const int v = e.blend(m, e.slot("momentum"), 1, g);
    e.set_slot("momentum", v);
    e.set_parameter(e.subtract(e.parameter(), e.multiply(lr, e.blend(1, g, m, v))));
    return;
  }
  const int v = e.blend(m, e.slot("momentum"), 1, e.multiply(lr, g));
  e.set_slot("momentum", v);
  e.set_parameter(e.subtract(e.parameter(), v));
}

const ClassDescription& SGD::class_description() {
  static const ClassDescription description = [] {
    Describing<SGD, Optimizer> described("MLCSGDOptimizer", "Gradient descent with momentum.");
    describe_forms(
        described,
        {argument("momentum_scale", 0.0f, "The momentum: the share of the velocity that is kept.",
                  &kShare),
         argument("uses_nesterov_momentum", false, "Whether the momentum is Nesterov's.")},
        [](const OptimizerDescriptor& descriptor, const Given& given) {
          return std::make_shared<SGD>(descriptor, given.get<float>("momentum_scale"),
                                       given.get<bool>("uses_nesterov_momentum"));
        });
    described
        .property("momentum_scale", &SGD::momentum,
                  "The momentum: the share of the velocity that is kept.")
        .in(kShare)
        .property("uses_nesterov_momentum", &SGD::nesterov, "Whether the momentum is Nesterov's.")
        .text(
            "v = m * v + lr * g, p -= v; Nesterov: v = m * v + g, p -= lr * (g + m * v). Errors: a "
            "number outside its range.");
    return ClassDescription(described);
  }();
  return description;
}

}  // namespace traingraph
