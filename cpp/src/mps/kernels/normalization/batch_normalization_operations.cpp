// The four batch normalization kernels as ops: batch_norm and its gradient where one encoding made
// the statistics of all images, else elementwise ops and reductions.
#include "mps/kernels/normalization/batch_normalization_operations.h"

#include <cstring>

#include "mps/kernels/forms.h"
#include "mps/recording/image_parts.h"

namespace traingraph::mps {
ir::ValueId broadcastable(Emission& e, ir::ValueId per_channel, DataType type) {
  const std::int64_t channels = e.graph.type(per_channel).shape[0];
  return ops::reshape(e.graph, ops::cast(e.graph, per_channel, type), {1, channels, 1, 1});
}

ir::ValueId channel_sum(Emission& e, ir::ValueId x) {
  const ir::ValueId sum = ops::reduce(e.graph, ir::ReduceKind::sum, x, {0, 2, 3});
  return ops::reshape(e.graph, sum, {e.graph.type(x).shape[1]});
}

namespace {

using ir::Scalar;
using ir::ScalarList;
using ir::ValueId;

double as_double(std::uint64_t bits) {
  double value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// The op that normalizes by the batch's own statistics: y, mean, inverse deviation, variance.
std::vector<ValueId> batch_norm(Emission& e, ValueId x, ValueId gamma, ValueId beta,
                                double epsilon) {
  const DataType type = e.graph.type(x).data_type;
  const ir::NodeId node =
      ops::apply(e.graph, ir::Op::batch_norm, ir::BatchNormAttributes{epsilon, {}},
                 {x, ops::cast(e.graph, gamma, type), ops::cast(e.graph, beta, type)});
  return e.graph.node(node).outputs;
}

// gamma (x - mean) / sqrt(variance + epsilon) + beta
ValueId normalized(Emission& e, ValueId x, ValueId gamma, ValueId beta, ValueId mean,
                   ValueId variance, double epsilon) {
  const DataType type = e.graph.type(x).data_type;
  ScalarList list;
  list.inputs = 4;  // gamma, beta, mean, variance
  const int scale = list.add(Scalar::multiply, 0,
                             list.add(Scalar::rsqrt, list.add(Scalar::affine, 3, -1, 1, epsilon)));
  const int shift = list.add(Scalar::subtract, 1, list.add(Scalar::multiply, 2, scale));
  list.results = {scale, shift};
  const std::vector<ValueId> affine =
      ops::elementwise(e.graph, std::move(list),
                       {broadcastable(e, gamma, type), broadcastable(e, beta, type),
                        broadcastable(e, mean, type), broadcastable(e, variance, type)});
  ScalarList apply{3, {{Scalar::multiply, 0, 1, 0, 0}, {Scalar::add, 3, 2, 0, 0}}, {4}};
  return ops::elementwise(e.graph, std::move(apply), {x, affine[0], affine[1]})[0];
}

// Whether x alone made these statistics: then one op does what several kernels ask for.
bool made_by(Emission& e, ValueId mean, ValueId x) {
  const auto found = e.statistics_of.find(mean);
  return found != e.statistics_of.end() && found->second == x;
}

// x, gamma, beta, mean, variance → mean, variance. Constants: elements before, epsilon.
class StatisticsOperation final : public Operation {
 public:
  using Operation::Operation;
  void emit(Emission& e) const override {
    const ValueId x = e.inputs[0];
    const Shape& shape = e.graph.type(x).shape;
    const auto before = static_cast<double>(e.constants[0]);
    const auto own = static_cast<double>(shape[0] * shape[2] * shape[3]);
    const std::vector<ValueId> found =
        batch_norm(e, x, e.inputs[1], e.inputs[2], as_double(e.constants[1]));
    if (before == 0) {
      e.set(0, found[1]);
      e.set(1, found[3]);
      e.statistics_of[found[1]] = x;
      return;
    }
    // The mean moves by the share of the new elements; the variance grows by the square of the
    // means' distance.
    const double share = own / (before + own);
    ScalarList list;
    list.inputs = 4;  // mean, variance, own mean, own variance
    const int distance = list.add(Scalar::subtract, 2, 0);
    const int mean = list.add(Scalar::multiply_add, 0, distance, 1, share);
    const int joined = list.add(Scalar::multiply_add, 1, 3, 1 - share, share);
    const int variance = list.add(Scalar::multiply_add, joined, list.add(Scalar::square, distance),
                                  1, share * (1 - share));
    list.results = {mean, variance};
    const std::vector<ValueId> moved =
        ops::elementwise(e.graph, std::move(list), {e.inputs[3], e.inputs[4], found[1], found[3]});
    e.set(0, moved[0]);
    e.set(1, moved[1]);
  }
};

// x, gamma, beta, mean, variance → y
class NormalizationOperation final : public Operation {
 public:
  NormalizationOperation(const std::string& subject_in, NeuronDescriptor neuron_in, double epsilon)
      : Operation(subject_in), neuron_(std::move(neuron_in)), epsilon_(epsilon) {}
  void emit(Emission& e) const override {
    const std::vector<ValueId>& in = e.inputs;
    const ValueId y = made_by(e, in[3], in[0])
                          ? batch_norm(e, in[0], in[1], in[2], epsilon_)[0]
                          : normalized(e, in[0], in[1], in[2], in[3], in[4], epsilon_);
    e.set(0, is_none(neuron_) ? y : neuron(e, neuron_, y));
  }

 private:
  NeuronDescriptor neuron_;
  double epsilon_;
};

// What both gradient kernels begin with: the gradient before the fused neuron.
struct NormalizedGradient {
  ValueId g;
  ValueId x;
  bool by_one_op;
};
NormalizedGradient before_neuron(Emission& e, const NeuronDescriptor& neuron_descriptor,
                                 double epsilon) {
  const std::vector<ValueId>& in = e.inputs;  // dy, x, gamma, beta, mean, variance
  const bool by_one_op = made_by(e, in[4], in[1]);
  ValueId g = in[0];
  if (!is_none(neuron_descriptor)) {
    const ValueId y = by_one_op ? batch_norm(e, in[1], in[2], in[3], epsilon)[0]
                                : normalized(e, in[1], in[2], in[3], in[4], in[5], epsilon);
    g = e.gradients(neuron(e, neuron_descriptor, y), g, {y})[0];
  }
  return {g, in[1], by_one_op};
}

// dx, dgamma, dbeta where x alone is the batch.
std::vector<ValueId> gradient_by_one_op(Emission& e, ValueId g, double epsilon) {
  const std::vector<ValueId>& in = e.inputs;
  const std::vector<ValueId> forward = batch_norm(e, in[1], in[2], in[3], epsilon);
  const ir::NodeId node = ops::apply(
      e.graph, ir::Op::batch_norm_gradient, ir::BatchNormAttributes{epsilon, {}},
      {g, in[1], forward[1], forward[2], ops::cast(e.graph, in[2], e.graph.type(in[1]).data_type)});
  return e.graph.node(node).outputs;
}

// x^ = (x - mean) / sqrt(variance + epsilon)
ValueId centered(Emission& e, ValueId x, ValueId mean, ValueId variance, double epsilon) {
  const DataType type = e.graph.type(x).data_type;
  ScalarList list;
  list.inputs = 3;
  const int inverse = list.add(Scalar::rsqrt, list.add(Scalar::affine, 2, -1, 1, epsilon));
  list.results = {list.add(Scalar::multiply, list.add(Scalar::subtract, 0, 1), inverse)};
  return ops::elementwise(e.graph, std::move(list),
                          {x, broadcastable(e, mean, type), broadcastable(e, variance, type)})[0];
}

// dy, x, gamma, beta, mean, variance, dgamma, dbeta → dgamma, dbeta. Constants: whether it begins,
// epsilon.
class StatisticsGradientOperation final : public Operation {
 public:
  StatisticsGradientOperation(const std::string& subject_in, NeuronDescriptor neuron_in)
      : Operation(subject_in), neuron_(std::move(neuron_in)) {}
  void emit(Emission& e) const override {
    const double epsilon = as_double(e.constants[1]);
    const NormalizedGradient begun = before_neuron(e, neuron_, epsilon);
    ValueId gamma = ir::kNone, beta = ir::kNone;
    if (begun.by_one_op) {
      const std::vector<ValueId> found = gradient_by_one_op(e, begun.g, epsilon);
      gamma = found[1];
      beta = found[2];
    } else {
      const ValueId x = centered(e, begun.x, e.inputs[4], e.inputs[5], epsilon);
      gamma = channel_sum(e, ops::binary(e.graph, Scalar::multiply, begun.g, x));
      beta = channel_sum(e, begun.g);
    }
    const bool begins = e.constants[0] != 0;
    if (!begins) {
      gamma = ops::binary(e.graph, Scalar::add, e.inputs[6], gamma);
      beta = ops::binary(e.graph, Scalar::add, e.inputs[7], beta);
    }
    e.set(0, gamma);
    e.set(1, beta);
  }

 private:
  NeuronDescriptor neuron_;
};

// dy, x, gamma, beta, mean, variance, dgamma, dbeta → dx. Constants: elements per channel in the
// whole batch, epsilon, the row and column of the result where x begins.
class GradientOperation final : public Operation {
 public:
  GradientOperation(const std::string& subject_in, NeuronDescriptor neuron_in)
      : Operation(subject_in), neuron_(std::move(neuron_in)) {}
  void emit(Emission& e) const override {
    const double epsilon = as_double(e.constants[1]);
    const NormalizedGradient begun = before_neuron(e, neuron_, epsilon);
    if (begun.by_one_op) {
      set(e, gradient_by_one_op(e, begun.g, epsilon)[0]);
      return;
    }
    const DataType type = e.graph.type(begun.x).data_type;
    const double share = 1 / static_cast<double>(e.constants[0]);
    const ValueId x = centered(e, begun.x, e.inputs[4], e.inputs[5], epsilon);
    ScalarList list;
    list.inputs = 6;  // g, x^, gamma, variance, dgamma, dbeta
    const int inverse = list.add(Scalar::rsqrt, list.add(Scalar::affine, 3, -1, 1, epsilon));
    const int part = list.add(Scalar::add, 5, list.add(Scalar::multiply, 1, 4));
    const int moved = list.add(Scalar::multiply_add, 0, part, 1, -share);
    list.results = {list.add(Scalar::multiply, moved, list.add(Scalar::multiply, 2, inverse))};
    set(e,
        ops::elementwise(
            e.graph, std::move(list),
            {begun.g, x, broadcastable(e, e.inputs[2], type), broadcastable(e, e.inputs[5], type),
             broadcastable(e, e.inputs[6], type), broadcastable(e, e.inputs[7], type)})[0]);
  }

 private:
  // What the statistics have not seen has no part in the result.
  static void set(Emission& e, ValueId dx) {
    const Shape shape = e.graph.type(dx).shape;
    const ir::Type whole{e.graph.type(dx).data_type, e.results[0].shape, false};
    ImagePart part;
    part.first = {0, static_cast<std::int64_t>(e.constants[2]),
                  static_cast<std::int64_t>(e.constants[3])};
    part.extent = {shape[1], shape[2], shape[3]};
    e.set(0, write_part(e.graph, ops::filled(e.graph, whole, 0), dx, part));
  }

  NeuronDescriptor neuron_;
};

}  // namespace

OperationPtr statistics_operation(const std::string& subject) {
  return std::make_shared<StatisticsOperation>(subject);
}
OperationPtr normalization_operation(const std::string& subject, const NeuronDescriptor& neuron,
                                     double epsilon) {
  return std::make_shared<NormalizationOperation>(subject, neuron, epsilon);
}
OperationPtr statistics_gradient_operation(const std::string& subject,
                                           const NeuronDescriptor& neuron) {
  return std::make_shared<StatisticsGradientOperation>(subject, neuron);
}
OperationPtr normalization_gradient_operation(const std::string& subject,
                                              const NeuronDescriptor& neuron) {
  return std::make_shared<GradientOperation>(subject, neuron);
}

}  // namespace traingraph::mps
