// The batch normalization layer: batch statistics in training, which also move the running ones,
// and running statistics in inference.
#include <traingraph/batch_normalization.h>

#include <traingraph/describe.h>
#include <traingraph/errors.h>

#include "layers/description/describe_normalization.h"
#include "layers/description/sample.h"
#include "layers/normalization.h"
#include "layers/real_rows.h"

namespace traingraph {
namespace {

using ir::ValueId;

constexpr const char* kBatchNorm = "BatchNormalization";

// Of means over a rank's rows that over the rows of all ranks.
ValueId mean_over_ranks(Lowering& lowering, ValueId own) {
  if (lowering.batch_norm_ranks == ir::kNone) return own;
  const ValueId share = lowering.step(ir::StepInput::mean_share);
  return ops::apply1(
      lowering.graph, ir::Op::all_reduce,
      ir::AllReduceAttributes{lowering.batch_norm_ranks, lowering.graph_of_ranks},
      {lowering.step(ir::StepInput::rank_rows), lowering.step(ir::StepInput::all_rows),
       ops::binary(lowering.graph, ir::Scalar::multiply, own, share)});
}

// Where the backend's kernels would count other rows, all of the program's or a rank's alone: the
// same as ops that count those of the call, or of all ranks.
struct Normalized {
  ValueId y, mean, variance;  // of x's shape, (C) and (C)
};

// x (N, C, …), gamma (C), beta (C)
Normalized by_counted_rows(Emitter& e, ValueId gamma, ValueId beta, double epsilon) {
  const ValueId x = e.sources[0];
  const ir::Type type = e.type(0);
  Shape beside(type.shape.size(), 1);
  beside[1] = type.shape[1];
  const Shape per_channel{type.shape[1]};
  std::vector<int> of_row;
  for (int axis = 2; axis < type.rank(); ++axis) of_row.push_back(axis);
  const double count = static_cast<double>(type.elements()) / static_cast<double>(type.shape[1]);
  // Of each row first: few numbers are masked.
  const auto mean_of = [&](ValueId values) {
    using enum ir::ReduceKind;
    const ValueId sums = of_row.empty() ? values : ops::reduce(e.graph, sum, values, of_row);
    const ValueId all = ops::reduce(e.graph, sum, real_rows(e.lowering, sums), {0});
    return mean_over_ranks(e.lowering, mean_of_rows(e.lowering, all, type, 1, count));
  };
  const ValueId mean = mean_of(x);
  const ValueId apart = ops::binary(e.graph, ir::Scalar::subtract, x, mean);
  const ValueId variance = mean_of(ops::unary(e.graph, ir::Scalar::square, apart));
  ir::ScalarList scale{2, {}, {}};
  const int above = scale.add(ir::Scalar::affine, 0, -1, 1, epsilon);
  scale.results = {scale.add(ir::Scalar::multiply, scale.add(ir::Scalar::rsqrt, above), 1)};
  const ValueId factor = ops::elementwise(e.graph, std::move(scale),
                                          {variance, ops::reshape(e.graph, gamma, beside)})[0];
  ir::ScalarList apply{3, {{ir::Scalar::multiply, 0, 1, 0, 0}, {ir::Scalar::add, 3, 2, 0, 0}}, {4}};
  const ValueId y = ops::elementwise(e.graph, std::move(apply),
                                     {apart, factor, ops::reshape(e.graph, beta, beside)})[0];
  return {y, ops::reshape(e.graph, mean, per_channel),
          ops::reshape(e.graph, variance, per_channel)};
}

TensorPtr own(std::int64_t channels, double value) {
  return Tensor::filled(TensorDescriptor({1, channels, 1, 1}), value);
}

}  // namespace

BatchNormalization::BatchNormalization(std::int64_t channels, TensorPtr mean, TensorPtr variance,
                                       TensorPtr beta, TensorPtr gamma, float variance_epsilon,
                                       float momentum)
    : RunningNormalization(kBatchNorm, channels, std::move(mean), std::move(variance),
                           std::move(beta), std::move(gamma), variance_epsilon, momentum) {
  if (mean_ != nullptr && variance_ != nullptr) return;
  throw InvalidArgument("[BatchNormalization] expected a mean and a variance tensor but got none");
}

BatchNormalization::BatchNormalization(std::int64_t channels, float variance_epsilon,
                                       float momentum)
    : BatchNormalization(channels, own(channels, 0), own(channels, 1), own(channels, 0),
                         own(channels, 1), variance_epsilon, momentum) {}

std::string BatchNormalization::description() const {
  return "BatchNormalization " + std::to_string(channels_);
}

// x (N, C, …) → y (N, C, …); every parameter is (C).
void BatchNormalization::emit(Emitter& e) const {
  normalization::expect_channels(e, channels_);
  if (normalization::uses_running(e, mean_, variance_)) {
    return e.result(normalization::by_running(e, mean_, variance_, gamma_, beta_,
                                              static_cast<double>(variance_epsilon_)));
  }
  const Shape per_channel = {channels_};
  auto parameter_or = [&](const TensorParameter& p, double fill) {
    if (p.tensor != nullptr) return e.parameter(p.tensor, per_channel);
    return ops::filled(e.graph, ir::Type{e.type(0).data_type, per_channel, false}, fill);
  };
  const auto epsilon = static_cast<double>(variance_epsilon_);
  const auto momentum = static_cast<double>(momentum_);
  const ValueId gamma = parameter_or(gamma_, 1);
  const ValueId beta = parameter_or(beta_, 0);
  const auto finish = [&](const Normalized& found) {
    normalization::move_running(e, mean_, found.mean, momentum);
    normalization::move_running(e, variance_, found.variance, momentum);
    e.result(found.y);
  };
  const bool fewer = e.lowering.takes_fewer_rows && e.type(0).batched;
  const bool over_ranks = e.lowering.batch_norm_ranks != ir::kNone;
  if (over_ranks || (fewer && !e.lowering.kernels_count_rows)) {
    finish(by_counted_rows(e, gamma, beta, epsilon));
    if (!over_ranks) return;
    for (const TensorPtr& running : {mean_, variance_}) {
      e.lowering.written_alike.insert(e.lowering.parameter_values.at(running.get()));
    }
    return;
  }
  ir::BatchNormAttributes attributes;
  attributes.epsilon = epsilon;
  attributes.counts_rows = fewer;
  std::vector<ValueId> operands{e.sources[0], gamma, beta};
  if (fewer) operands.push_back(e.lowering.step(ir::StepInput::rows));
  const ir::NodeId node =
      ops::apply(e.graph, ir::Op::batch_norm, std::move(attributes), std::move(operands));
  const std::vector<ValueId> results = e.graph.node(node).outputs;
  finish({results[0], results[1], results[3]});
}

const ClassDescription& BatchNormalization::class_description() {
  using Self = BatchNormalization;
  static const ClassDescription description =
      describe_running<Self>("MLCBatchNormalizationLayer",
                             "(x - mean) / sqrt(variance + epsilon) * gamma + beta per channel.")
          .form({channels_argument(), epsilon_argument(), momentum_argument()},
                [](const Given& given) {
                  return std::make_shared<Self>(given.get<std::int64_t>("feature_channel_count"),
                                                given.get<float>("variance_epsilon"),
                                                given.get<float>("momentum"));
                })
          .text(
              "Without mean and variance the layer makes its own parameters. Shapes: (N, C, …) to "
              "the same; parameters (1, C, 1, 1). Training uses the batch's biased statistics and "
              "moves the running ones: running = momentum * running + (1 - momentum) * batch. "
              "Gradient: reads the source and the batch's statistics. Errors: a source of another "
              "number of channels, parameters of other sizes, a number outside its range.")
          .sample([](DataType t) {
            const auto one = [t] { return sample_parameter({1, 1, 1, 1}, t); };
            return LayerSample{std::make_shared<Self>(1, one(), one(), one(), one()),
                               {{{2, 1, 2, 2}, t}}};
          });
  return description;
}

}  // namespace traingraph
