// RMSProp, centered and with momentum, as a scalar list.
#include "ir/number_text.h"
#include "optimizers/describe_optimizer.h"
#include "optimizers/update_emitter.h"
#include "runtime/numbers/range.h"

namespace traingraph {

RMSProp::RMSProp(OptimizerDescriptor descriptor, RMSPropOptions options)
    : Optimizer(std::move(descriptor), "RMSProp"), options_(options) {
  expect_in(kShare, "RMSProp", "momentum_scale", options.momentum);
  expect_in(kShare, "RMSProp", "alpha", options.alpha);
  expect_in(kNotNegative, "RMSProp", "epsilon", options.epsilon);
}

OptimizerPtr RMSProp::copy() const { return std::shared_ptr<RMSProp>(new RMSProp(*this)); }

std::string RMSProp::description() const {
  PlainStream text;
  text << "RMSProp(learning_rate=" << learning_rate() << ", alpha=" << options_.alpha
       << ", epsilon=" << options_.epsilon << ", momentum=" << options_.momentum
       << (options_.is_centered ? ", centered" : "") << ")";
  return text.str();
}

std::vector<std::string> RMSProp::slots() const {
  std::vector<std::string> slots{"mean_square"};
  if (options_.is_centered) slots.push_back("mean");
  if (options_.momentum != 0.0f) slots.push_back("step");
  return slots;
}

// n = alpha n + (1 - alpha) g²; centered: under the root max(n - mean², 0);
// step = momentum step - lr g / (root + eps); p += step
void RMSProp::emit(UpdateEmitter& e) const {
  const double alpha = options_.alpha;
  const int g = e.gradient();
  const int n = e.blend(alpha, e.slot("mean_square"), 1.0 - alpha, e.apply(ir::Scalar::square, g));
  e.set_slot("mean_square", n);
  int under_root = n;
  if (options_.is_centered) {
    const int mean = e.blend(alpha, e.slot("mean"), 1.0 - alpha, g);
    e.set_slot("mean", mean);
    const int variance = e.subtract(n, e.apply(ir::Scalar::square, mean));
    under_root = e.apply(ir::Scalar::maximum, variance, e.apply(ir::Scalar::constant, -1));
  }
  const int root = e.apply(ir::Scalar::affine, e.apply(ir::Scalar::sqrt, under_root), -1, 1,
                           divisible(options_.epsilon));
  const int change = e.divide(e.multiply(e.learning_rate(), g), root);
  if (options_.momentum == 0.0f) {
    e.set_parameter(e.subtract(e.parameter(), change));
    return;
  }
  const int step = e.blend(options_.momentum, e.slot("step"), -1, change);
  e.set_slot("step", step);
  e.set_parameter(e.add(e.parameter(), step));
}

const ClassDescription& RMSProp::class_description() {
  static const ClassDescription description = [] {
    const auto option = [](auto member) {
      return [member](const RMSProp& self) { return self.options().*member; };
    };
    using O = RMSPropOptions;
    Describing<RMSProp, Optimizer> described("MLCRMSPropOptimizer",
                                             "Steps divided by the root of a running mean square.");
    describe_forms(described,
                   {argument("momentum_scale", O{}.momentum,
                             "The momentum: the share of the last step that is kept.", &kShare),
                    argument("alpha", O{}.alpha, "The decay rate of the mean square.", &kShare),
                    argument("epsilon", O{}.epsilon, "Added to the root.", &kNotNegative),
                    argument("is_centered", O{}.is_centered,
                             "Whether the variance takes the place of the mean square.")},
                   [](const OptimizerDescriptor& descriptor, const Given& given) {
                     return std::make_shared<RMSProp>(
                         descriptor,
                         O{given.get<float>("momentum_scale"), given.get<float>("alpha"),
                           given.get<float>("epsilon"), given.get<bool>("is_centered")});
                   });
    described
        .property("momentum_scale", option(&O::momentum),
                  "The momentum: the share of the last step that is kept.")
        .in(kShare)
        .property("alpha", option(&O::alpha), "The decay rate of the mean square.")
        .in(kShare)
        .property("epsilon", option(&O::epsilon),
                  "Added to the root; below 1.2e-38 it counts as that.")
        .in(kNotNegative)
        .property("is_centered", option(&O::is_centered),
                  "Whether the variance takes the place of the mean square.")
        .text(
            "n = alpha * n + (1 - alpha) * g**2; step = m * step - lr * g / (sqrt(n) + epsilon); "
            "p += step. Errors: a number outside its range.");
    return ClassDescription(described);
  }();
  return description;
}

}  // namespace traingraph
