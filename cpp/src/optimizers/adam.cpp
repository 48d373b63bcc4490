// Adam, AMSGrad and AdamW share one rule; AdamW adds the decoupled decay.
#include <cmath>

#include <traingraph/errors.h>

#include "ir/number_text.h"
#include "optimizers/describe_optimizer.h"
#include "optimizers/update_emitter.h"
#include "runtime/numbers/range.h"

namespace traingraph {
namespace {

constexpr Range kTimeStep{1, static_cast<double>(Optimizer::kMostTimeSteps), "from 1 to 2**53"};

// The immediates of the list are float64 and rounded once, so 1 - beta is formed here.
double complement(float beta) { return 1.0 - static_cast<double>(beta); }

// m = b1 m + (1-b1) g; v = b2 v + (1-b2) g²; what is subtracted: lr_t m / (sqrt(v) + eps)
int adam_step(UpdateEmitter& e, const AdamOptions& options) {
  const int g = e.gradient();
  const int m = e.blend(options.beta1, e.slot("first_moment"), complement(options.beta1), g);
  const int v = e.blend(options.beta2, e.slot("second_moment"), complement(options.beta2),
                        e.apply(ir::Scalar::square, g));
  e.set_slot("first_moment", m);
  e.set_slot("second_moment", v);
  int under_root = v;
  if (options.uses_amsgrad) {
    under_root = e.apply(ir::Scalar::maximum, e.slot("maximum_second_moment"), v);
    e.set_slot("maximum_second_moment", under_root);
  }
  const int denominator = e.apply(ir::Scalar::affine, e.apply(ir::Scalar::sqrt, under_root), -1, 1,
                                  divisible(options.epsilon));
  return e.divide(e.multiply(e.corrected_learning_rate(), m), denominator);
}

std::string text(const char* name, double learning_rate, const AdamOptions& options) {
  PlainStream out;
  out << name << "(learning_rate=" << learning_rate << ", beta1=" << options.beta1
      << ", beta2=" << options.beta2 << ", epsilon=" << options.epsilon
      << (options.uses_amsgrad ? ", amsgrad" : "") << ")";
  return out.str();
}

}  // namespace

Adam::Adam(OptimizerDescriptor descriptor, AdamOptions options)
    : Adam(std::move(descriptor), options, "Adam") {}
Adam::Adam(OptimizerDescriptor descriptor, AdamOptions options, const std::string& subject)
    : Optimizer(std::move(descriptor), subject), options_(options) {
  expect_in(kShareBelowOne, subject, "beta1", options.beta1);
  expect_in(kShareBelowOne, subject, "beta2", options.beta2);
  expect_in(kNotNegative, subject, "epsilon", options.epsilon);
  set_time_step(options.time_step);
}
OptimizerPtr Adam::copy() const { return std::shared_ptr<Adam>(new Adam(*this)); }
std::string Adam::description() const { return text("Adam", learning_rate(), options_); }
std::vector<std::string> Adam::slots() const {
  std::vector<std::string> slots{"first_moment", "second_moment"};
  if (options_.uses_amsgrad) slots.push_back("maximum_second_moment");
  return slots;
}
double Adam::corrected(float learning_rate, std::int64_t step) const {
  const auto t = static_cast<double>(step);
  return learning_rate * std::sqrt(1.0 - std::pow(static_cast<double>(options_.beta2), t)) /
         (1.0 - std::pow(static_cast<double>(options_.beta1), t));
}
void Adam::emit(UpdateEmitter& e) const {
  e.set_parameter(e.subtract(e.parameter(), adam_step(e, options_)));
}

AdamW::AdamW(OptimizerDescriptor descriptor, AdamOptions options)
    : Adam(std::move(descriptor), options, "AdamW") {
  if (this->descriptor().regularization_type == RegularizationType::kL1) {
    throw InvalidArgument("[AdamW] expected regularization NONE or L2 but got L1");
  }
}
OptimizerPtr AdamW::copy() const { return std::shared_ptr<AdamW>(new AdamW(*this)); }
std::string AdamW::description() const { return text("AdamW", learning_rate(), options()); }
// p -= Adam's step + lr * scale * p
void AdamW::emit(UpdateEmitter& e) const {
  const int step = adam_step(e, options());
  int p = e.parameter();
  if (descriptor().regularization_type == RegularizationType::kL2) {
    const int decay = e.scale(e.multiply(e.learning_rate(), p), descriptor().regularization_scale);
    p = e.subtract(p, decay);
  }
  e.set_parameter(e.subtract(p, step));
}

namespace {

template <class T>
ClassDescription described_adam(const char* name, const char* summary, const char* text) {
  using O = AdamOptions;
  const auto option = [](auto member) {
    return [member](const T& self) { return self.options().*member; };
  };
  Describing<T, Optimizer> described(name, summary);
  describe_forms(
      described,
      {argument("beta1", O{}.beta1, "The decay rate of the first moment.", &kShareBelowOne),
       argument("beta2", O{}.beta2, "The decay rate of the second moment.", &kShareBelowOne),
       argument("epsilon", O{}.epsilon, "Added to the root.", &kNotNegative),
       argument("uses_amsgrad", O{}.uses_amsgrad, "Whether the largest second moment is used."),
       argument("time_step", O{}.time_step, "The step of the next update.", &kTimeStep)},
      [](const OptimizerDescriptor& descriptor, const Given& given) {
        return std::make_shared<T>(
            descriptor,
            O{given.get<float>("beta1"), given.get<float>("beta2"), given.get<float>("epsilon"),
              given.get<bool>("uses_amsgrad"), given.get<std::int64_t>("time_step")});
      });
  described.property("beta1", option(&O::beta1), "The decay rate of the first moment.")
      .in(kShareBelowOne)
      .property("beta2", option(&O::beta2), "The decay rate of the second moment.")
      .in(kShareBelowOne)
      .property("epsilon", option(&O::epsilon),
                "Added to the root of the second moment; below 1.2e-38 it counts as that.")
      .in(kNotNegative)
      .property("uses_amsgrad", option(&O::uses_amsgrad),
                "Whether the largest second moment so far is used.")
      .property("time_step", &T::time_step, "The step of the next update.")
      .in(kTimeStep)
      .text(text);
  return described;
}

}  // namespace

const ClassDescription& Adam::class_description() {
  static const ClassDescription description =
      described_adam<Adam>("MLCAdamOptimizer", "Adam.",
                           "p -= lr * sqrt(1 - b2**t) / (1 - b1**t) * m / (sqrt(v) + epsilon). "
                           "Errors: a number outside its range. Source: Kingma and Ba, "
                           "2015, arXiv:1412.6980.");
  return description;
}

const ClassDescription& AdamW::class_description() {
  static const ClassDescription description = described_adam<AdamW>(
      "MLCAdamWOptimizer", "Adam with a decoupled L2 penalty.",
      "Adam, and p also decreases by lr * regularization_scale * p. Errors: a number outside its "
      "range, and an L1 penalty. Source: Loshchilov and Hutter, "
      "2019, arXiv:1711.05101.");
  return description;
}

}  // namespace traingraph
