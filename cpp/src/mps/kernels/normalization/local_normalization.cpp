// Local normalization kernels as ops: window means by average pooling, powers by exp and log, and
// the gradient, exact or as Apple's header prints it.
#include <traingraph/mps/local_normalization.h>

#include <algorithm>
#include <utility>

#include <traingraph/errors.h>

#include "ir/extents.h"
#include "mps/kernels/differentiable.h"
#include "runtime/numbers/range.h"

namespace traingraph::mps {
namespace {

using ir::Scalar;
using ir::ScalarList;
using ir::ValueId;
using Type = LocalNormalizationType;

constexpr const char* kLocalKinds[] = {"MPSCNNCrossChannelNormalization",
                                       "MPSCNNSpatialNormalization",
                                       "MPSCNNLocalContrastNormalization"};
constexpr const char* kLocalGradientKinds[] = {"MPSCNNCrossChannelNormalizationGradient",
                                               "MPSCNNSpatialNormalizationGradient",
                                               "MPSCNNLocalContrastNormalizationGradient"};

void check_parameters(const LocalNormalization& p, const char* kind) {
  const int type = static_cast<int>(p.type);
  const auto [least, most] = std::minmax(p.kernel_width, p.kernel_height);
  if (type < 0 || type > 2 || least < 1 || most > ir::kMostOfWindow) {
    throw InvalidArgument("[" + std::string(kind) + "] expected a window of " +
                          ir::bound_of_window(most <= ir::kMostOfWindow) + " but got " +
                          std::to_string(p.kernel_height) + "x" + std::to_string(p.kernel_width));
  }
  for (const auto& [name, value] : {std::pair("alpha", p.alpha),
                                    {"beta", p.beta},
                                    {"delta", p.delta},
                                    {"p0", p.p0},
                                    {"pm", p.pm},
                                    {"ps", p.ps}}) {
    expect_in(kFinite, kind, name, static_cast<double>(value));
  }
}

// The mean over each window, zeros beyond the image counted. Mirrored windows reach as far behind
// their middle as others before it.
ValueId window_mean(Emission& e, const LocalNormalization& p, ValueId x, bool mirrored = false) {
  const Shape shape = e.graph.type(x).shape;
  const bool across = p.type == Type::kCrossChannel;
  ir::PoolingAttributes attributes;
  attributes.kind = ir::PoolingKind::average;
  attributes.count_includes_padding = true;
  const std::int64_t kernel[2] = {across ? p.kernel_width : p.kernel_height,
                                  across ? 1 : p.kernel_width};
  for (int axis = 0; axis < 2; ++axis) {
    const std::int64_t longer = kernel[axis] / 2, shorter = (kernel[axis] - 1) / 2;
    attributes.window.kernel[axis] = kernel[axis];
    attributes.window.padding_before[axis] = mirrored ? shorter : longer;
    attributes.window.padding_after[axis] = mirrored ? longer : shorter;
  }
  if (across) x = ops::reshape(e.graph, x, {shape[0], 1, shape[1], shape[2] * shape[3]});
  const ValueId mean = ops::apply1(e.graph, ir::Op::pooling, attributes, {x});
  return across ? ops::reshape(e.graph, mean, shape) : mean;
}

// u ^ -beta
int inverse_power(ScalarList& list, int u, double beta) {
  return list.add(Scalar::exp, list.add(Scalar::scale, list.add(Scalar::log, u), -1, -beta));
}

ValueId normalized(Emission& e, const LocalNormalization& p, ValueId x) {
  const auto alpha = static_cast<double>(p.alpha), delta = static_cast<double>(p.delta);
  const auto beta = static_cast<double>(p.beta);
  const ValueId squares = window_mean(e, p, ops::unary(e.graph, Scalar::square, x));
  if (p.type != Type::kLocalContrast) {
    ScalarList list{2, {}, {}};  // x, mean of squares
    const int base = list.add(Scalar::affine, 1, -1, alpha, delta);
    list.results = {list.add(Scalar::multiply, 0, inverse_power(list, base, beta))};
    return ops::elementwise(e.graph, std::move(list), {x, squares})[0];
  }
  ScalarList list{3, {}, {}};  // x, mean of squares, mean
  const int variance = list.add(Scalar::subtract, 1, list.add(Scalar::square, 2));
  const int base = list.add(Scalar::affine, variance, -1, alpha, delta);
  const int centered = list.add(Scalar::multiply_add, 0, 2, 1, -static_cast<double>(p.p0));
  const int divided = list.add(Scalar::multiply, centered, inverse_power(list, base, beta));
  list.results = {
      list.add(Scalar::affine, divided, -1, static_cast<double>(p.ps), static_cast<double>(p.pm))};
  return ops::elementwise(e.graph, std::move(list), {x, squares, window_mean(e, p, x)})[0];
}

class ForwardOperation final : public Operation {
 public:
  ForwardOperation(const std::string& subject_in, const LocalNormalization& p)
      : Operation(subject_in), p_(p) {}
  void emit(Emission& e) const override { e.set(0, normalized(e, p_, e.inputs[0])); }

 private:
  LocalNormalization p_;
};

// dy, x → T^-beta dy - 2 alpha beta x (sum over the mirrored window of what Apple's text has there)
class PrintedNormalization final : public Operation {
 public:
  PrintedNormalization(const std::string& subject_in, const LocalNormalization& p)
      : Operation(subject_in), p_(p) {}
  void emit(Emission& e) const override {
    const ValueId dy = e.inputs[0], x = e.inputs[1];
    const auto alpha = static_cast<double>(p_.alpha), delta = static_cast<double>(p_.delta);
    const auto beta = static_cast<double>(p_.beta);
    const bool across = p_.type == Type::kCrossChannel;
    const ValueId squares = window_mean(e, p_, ops::unary(e.graph, Scalar::square, x));
    ScalarList powers{3, {}, {}};  // dy, x, mean of squares
    const int base = powers.add(Scalar::affine, 2, -1, alpha, delta);
    const int power = inverse_power(powers, base, beta);
    const int next = powers.add(Scalar::divide, power, base);
    const int product = powers.add(Scalar::multiply, 0, 1);
    // Inside of the sum across channels, outside of it over pixels.
    const int summed = across ? powers.add(Scalar::multiply, product, next) : product;
    powers.results = {powers.add(Scalar::multiply, 0, power), next, summed};
    const std::vector<ValueId> parts =
        ops::elementwise(e.graph, std::move(powers), {dy, x, squares});
    const std::int64_t count = across ? p_.kernel_width : p_.kernel_width * p_.kernel_height;
    const double factor = -2 * alpha * beta * static_cast<double>(count);
    ScalarList list{4, {}, {}};  // power dy, x, next power, mean of the sum
    int term = list.add(Scalar::multiply, 1, 3);
    if (!across) term = list.add(Scalar::multiply, term, 2);
    list.results = {list.add(Scalar::multiply_add, 0, term, 1, factor)};
    const ValueId mean = window_mean(e, p_, parts[2], true);
    e.set(0, ops::elementwise(e.graph, std::move(list), {parts[0], x, parts[1], mean})[0]);
  }

 private:
  LocalNormalization p_;
};

// dy, x → ps T^-beta (dy - mean over the mirrored window of
//                    dy (p0 + 2 alpha beta (x - 1) (middle x - p0 middle mean) / T))
class PrintedContrast final : public Operation {
 public:
  PrintedContrast(const std::string& subject_in, const LocalNormalization& p)
      : Operation(subject_in), p_(p) {}
  void emit(Emission& e) const override {
    const ValueId dy = e.inputs[0], x = e.inputs[1];
    const auto alpha = static_cast<double>(p_.alpha), beta = static_cast<double>(p_.beta);
    const auto p0 = static_cast<double>(p_.p0);
    const ValueId squares = window_mean(e, p_, ops::unary(e.graph, Scalar::square, x));
    const ValueId mean = window_mean(e, p_, x);
    ScalarList product{2, {}, {}};  // dy, x
    product.results = {product.add(Scalar::multiply, 0, product.add(Scalar::affine, 1, -1, 1, -1))};
    const ValueId products = ops::elementwise(e.graph, std::move(product), {dy, x})[0];
    ScalarList list{6, {}, {}};  // dy, x, mean of squares, mean, and two mirrored means
    const int variance = list.add(Scalar::subtract, 2, list.add(Scalar::square, 3));
    const int base = list.add(Scalar::affine, variance, -1, alpha, static_cast<double>(p_.delta));
    const int centered =
        list.add(Scalar::divide, list.add(Scalar::multiply_add, 1, 3, 1, -p0), base);
    const int pulled = list.add(Scalar::multiply, centered, 5);
    const int less = list.add(Scalar::multiply_add, 4, pulled, p0, 2 * alpha * beta);
    const int scaled = list.add(Scalar::multiply, list.add(Scalar::subtract, 0, less),
                                inverse_power(list, base, beta));
    list.results = {list.add(Scalar::scale, scaled, -1, static_cast<double>(p_.ps))};
    e.set(0, ops::elementwise(e.graph, std::move(list),
                              {dy, x, squares, mean, window_mean(e, p_, dy, true),
                               window_mean(e, p_, products, true)})[0]);
  }

 private:
  LocalNormalization p_;
};

// The window in pixels; that of a cross-channel normalization is none.
void set_window(KernelWindow& window, const LocalNormalization& p) {
  if (p.type == Type::kCrossChannel) return;
  window.kernel_width = p.kernel_width;
  window.kernel_height = p.kernel_height;
}

}  // namespace

LocalNormalization LocalNormalization::cross_channel(std::int64_t kernel_size) {
  LocalNormalization p;
  p.kernel_width = kernel_size;
  p.kernel_height = 1;
  return p;
}
LocalNormalization LocalNormalization::spatial(std::int64_t kernel_width,
                                               std::int64_t kernel_height) {
  LocalNormalization p;
  p.type = Type::kSpatial;
  p.kernel_width = kernel_width;
  p.kernel_height = kernel_height;
  return p;
}
LocalNormalization LocalNormalization::local_contrast(std::int64_t kernel_width,
                                                      std::int64_t kernel_height) {
  LocalNormalization p = spatial(kernel_width, kernel_height);
  p.type = Type::kLocalContrast;
  p.alpha = 0;
  p.beta = 0.5f;
  p.delta = 1.0f / 1024;
  return p;
}

CNNLocalNormalization::CNNLocalNormalization(const Device& device,
                                             const LocalNormalization& parameters)
    : CNNKernel(device), parameters_(parameters) {
  check_parameters(parameters_, "MPSCNNNormalization");
  set_window(window_, parameters_);
}
const char* CNNLocalNormalization::kind() const {
  return kLocalKinds[static_cast<int>(parameters_.type)];
}
void CNNLocalNormalization::set_parameters(const LocalNormalization& value) {
  check_parameters(value, kind());
  set(parameters_, value);
  set_window(window_, value);
}
OperationPtr CNNLocalNormalization::make_operation() const {
  return std::make_shared<ForwardOperation>(description(), parameters_);
}

CNNLocalNormalizationGradient::CNNLocalNormalizationGradient(const Device& device,
                                                             const LocalNormalization& parameters)
    : CNNGradientKernel(device), parameters_(parameters) {
  check_parameters(parameters_, "MPSCNNNormalizationGradient");
  set_window(window_, parameters_);
}
const char* CNNLocalNormalizationGradient::kind() const {
  return kLocalGradientKinds[static_cast<int>(parameters_.type)];
}
void CNNLocalNormalizationGradient::set_parameters(const LocalNormalization& value) {
  check_parameters(value, kind());
  set(parameters_, value);
  set_window(window_, value);
}
OperationPtr CNNLocalNormalizationGradient::make_operation() const {
  if (header_formula_ && parameters_.type == Type::kLocalContrast) {
    return std::make_shared<PrintedContrast>(description(), parameters_);
  }
  if (header_formula_) return std::make_shared<PrintedNormalization>(description(), parameters_);
  const LocalNormalization p = parameters_;
  return gradient_operation(
      description(), [p](Emission& e, ValueId x, const Shape&) { return normalized(e, p, x); });
}

}  // namespace traingraph::mps
