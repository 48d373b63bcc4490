// CNNNeuron and CNNNeuronGradient: the layer Activation where it has them, else scalar lists for
// power, exponential and logarithm, and slopes per channel for PReLU.
#include <traingraph/mps/neuron.h>

#include <cmath>
#include <utility>

#include <traingraph/activation.h>
#include <traingraph/errors.h>

#include "ir/number_text.h"
#include "mps/kernels/forms.h"
#include "runtime/numbers/range.h"

namespace traingraph::mps {
namespace {

using ir::Scalar;
using ir::ScalarList;
using ir::ValueId;

// The functions that ML Compute's activations have, by raw value; those in between are written
// here.
constexpr ActivationType kActivations[] = {
    ActivationType::kNone,     ActivationType::kReLU,        ActivationType::kLinear,
    ActivationType::kSigmoid,  ActivationType::kHardSigmoid, ActivationType::kTanh,
    ActivationType::kAbsolute, ActivationType::kSoftPlus,    ActivationType::kSoftSign,
    ActivationType::kELU,      ActivationType::kNone,        ActivationType::kReLUN,
};

// u ^ c: by products for small whole c, of either sign of u; else exp(c log u), NaN below 0. The
// reciprocal comes first, so that derivatives at 0 and infinity are products of one kind.
int power(ScalarList& list, int u, double c) {
  const double whole = std::abs(c);
  if (whole != std::floor(whole) || whole > 16) return list.add(Scalar::power, u, -1, c);
  if (c < 0) u = list.add(Scalar::reciprocal, u);
  int result = list.add(Scalar::constant, -1, -1, 1);
  for (int k = 0; k < static_cast<int>(whole); ++k) {
    result = k == 0 ? list.add(Scalar::identity, u) : list.add(Scalar::multiply, result, u);
  }
  return result;
}

ScalarList composed(const NeuronDescriptor& d) {
  const double a = d.a, b = d.b, c = d.c;
  ScalarList list{1, {}, {}};
  const int x = a == 0 ? list.add(Scalar::clip, 0, -1, -1, 1) : 0;  // not 0 times infinity
  const int u = list.add(Scalar::affine, x, -1, a, b);
  if (d.type == NeuronType::kPower) {
    list.results = {power(list, u, c)};
  } else if (d.type == NeuronType::kExponential) {
    const double factor = c == -1 ? 1 : std::log(c);
    list.results = {list.add(Scalar::exp, list.add(Scalar::scale, u, -1, factor))};
  } else {
    const double factor = c == -1 ? 1 : 1 / std::log(c);
    list.results = {list.add(Scalar::scale, list.add(Scalar::log, u), -1, factor)};
  }
  return list;
}

// max(x, 0) + slope min(x, 0), one slope per channel.
ValueId prelu(Emission& e, const NeuronDescriptor& d, ValueId x) {
  const ir::Type type = e.graph.type(x);
  std::vector<ValueId> slopes;
  for (float slope : d.data) {
    slopes.push_back(
        ops::filled(e.graph, {type.data_type, {1, 1, 1, 1}, false}, static_cast<double>(slope)));
  }
  ValueId all = slopes[0];
  if (slopes.size() > 1) {
    all = ops::apply1(e.graph, ir::Op::concatenate, ir::AxisAttributes{1}, slopes);
  }
  return ops::binary(e.graph, Scalar::parametric_relu, x, all);
}

class NeuronOperation final : public Operation {
 public:
  NeuronOperation(const std::string& subject_in, NeuronDescriptor neuron_in)
      : Operation(subject_in), neuron_(std::move(neuron_in)) {}
  void emit(Emission& e) const override { e.set(0, neuron(e, neuron_, e.inputs[0])); }

 private:
  NeuronDescriptor neuron_;
};

// dy, x → dx
class NeuronGradientOperation final : public Operation {
 public:
  NeuronGradientOperation(const std::string& subject_in, NeuronDescriptor neuron_in)
      : Operation(subject_in), neuron_(std::move(neuron_in)) {}
  void emit(Emission& e) const override {
    const ValueId y = neuron(e, neuron_, e.inputs[1]);
    e.set(0, e.gradients(y, e.inputs[0], {e.inputs[1]})[0]);
  }

 private:
  NeuronDescriptor neuron_;
};

// dy, x → dx of ReLUN as Apple's table has it: a below 0, 1 below b, else b.
class PrintedReLUN final : public Operation {
 public:
  PrintedReLUN(const std::string& subject_in, NeuronDescriptor neuron_in)
      : Operation(subject_in), neuron_(std::move(neuron_in)) {}
  void emit(Emission& e) const override {
    const auto a = static_cast<double>(neuron_.a), b = static_cast<double>(neuron_.b);
    ScalarList list{2, {}, {}};  // dy, x
    const int below_b = list.add(Scalar::relu_gradient, 0, list.add(Scalar::affine, 1, -1, -1, b));
    const int from_b = list.add(Scalar::subtract, 0, below_b);
    const int below_0 = list.add(Scalar::relu_gradient, below_b, list.add(Scalar::negate, 1));
    const int between = list.add(Scalar::subtract, below_b, below_0);
    const int outside = list.add(Scalar::multiply_add, below_0, from_b, a, b);
    list.results = {list.add(Scalar::add, between, outside)};
    e.set(0, ops::elementwise(e.graph, std::move(list), {e.inputs[0], e.inputs[1]})[0]);
  }

 private:
  NeuronDescriptor neuron_;
};

}  // namespace

bool is_none(const NeuronDescriptor& neuron) { return neuron.type == NeuronType::kNone; }

void check_neuron(const NeuronDescriptor& neuron, const std::string& who) {
  const int type = static_cast<int>(neuron.type);
  if (type < 0 || type > static_cast<int>(NeuronType::kGeLU)) {
    throw InvalidArgument("[" + who + "] expected a neuron type from 0 to 15 but got " +
                          std::to_string(type));
  }
  if (neuron.type == NeuronType::kPReLU && neuron.data.empty()) {
    throw InvalidArgument("[" + who + "] expected one slope per channel for PReLU but got none");
  }
  // The limit of ReLUN may be infinite: it is none then.
  const traingraph::Range& range_of_b = neuron.type == NeuronType::kReLUN ? kAnyNumber : kFinite;
  expect_in(kFinite, who, "a", static_cast<double>(neuron.a));
  expect_in(range_of_b, who, "b", static_cast<double>(neuron.b));
  expect_in(kFinite, who, "c", static_cast<double>(neuron.c));
  const bool has_base =
      neuron.type == NeuronType::kExponential || neuron.type == NeuronType::kLogarithm;
  if (has_base && !(neuron.c == -1 || (neuron.c > 0 && neuron.c != 1))) {
    throw InvalidArgument("[" + who +
                          "] expected a base c above 0 other than 1, or -1 for e, but got " +
                          short_text(neuron.c));
  }
}

ValueId neuron(Emission& e, const NeuronDescriptor& d, ValueId x) {
  switch (d.type) {
    case NeuronType::kPReLU:
      if (static_cast<std::int64_t>(d.data.size()) != e.graph.type(x).shape[1]) {
        e.fail("expected one slope per channel, " + std::to_string(e.graph.type(x).shape[1]) +
               ", but got " + std::to_string(d.data.size()));
      }
      return prelu(e, d, x);
    case NeuronType::kPower:
    case NeuronType::kExponential:
    case NeuronType::kLogarithm:
      return ops::elementwise(e.graph, composed(d), {x})[0];
    case NeuronType::kGeLU:
      return e.layer(Activation(ActivationDescriptor(ActivationType::kGELUErf)), {x});
    default:
      break;
  }
  ActivationDescriptor descriptor(kActivations[static_cast<int>(d.type)], d.a, d.b, d.c);
  if (d.type == NeuronType::kReLUN && static_cast<double>(d.b) == kInfinite) {  // no limit
    descriptor = ActivationDescriptor(ActivationType::kReLU, d.a);
  }
  return e.layer(Activation(descriptor), {x});
}

CNNNeuron::CNNNeuron(const Device& device, NeuronDescriptor descriptor, const char* kind)
    : CNNKernel(device), descriptor_(std::move(descriptor)), kind_(kind) {
  check_neuron(descriptor_, kind);
}
OperationPtr CNNNeuron::make_operation() const {
  return std::make_shared<NeuronOperation>(description(), descriptor_);
}
void CNNNeuron::check_source(const ImageDescriptor& source) const {
  if (descriptor_.type != NeuronType::kPReLU) return;
  if (static_cast<std::int64_t>(descriptor_.data.size()) == source.feature_channels) return;
  refuse_shape("expected source images of " + std::to_string(descriptor_.data.size()) +
               " channels, one per slope, but got " + to_string(source));
}

CNNNeuronGradient::CNNNeuronGradient(const Device& device, NeuronDescriptor descriptor)
    : CNNGradientKernel(device), descriptor_(std::move(descriptor)) {
  check_neuron(descriptor_, kind());
}
void CNNNeuronGradient::set_header_formula(bool value) {
  if (value && descriptor_.type != NeuronType::kReLUN) {
    refuse_use("the header's formula of another neuron than ReLUN, which is the derivative");
  }
  set(header_formula_, value);
}
OperationPtr CNNNeuronGradient::make_operation() const {
  if (header_formula_) return std::make_shared<PrintedReLUN>(description(), descriptor_);
  return std::make_shared<NeuronGradientOperation>(description(), descriptor_);
}

}  // namespace traingraph::mps
