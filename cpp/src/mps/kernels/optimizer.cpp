// NNOptimizer kernels: an update rule of traingraph::Optimizer as one operation over vectors,
// convolution weights, or gamma and beta.
#include <traingraph/mps/optimizer.h>

#include <traingraph/errors.h>

#include "ir/extents.h"
#include "mps/kernels/batch_normalization_order.h"
#include "mps/recording/emission.h"
#include "optimizers/update_emitter.h"
#include "runtime/numbers/range.h"

namespace traingraph::mps {
namespace {

using ir::ValueId;

class OptimizerOperation final : public Operation {
 public:
  OptimizerOperation(const std::string& subject_in, OptimizerPtr rule)
      : Operation(subject_in), rule_(std::move(rule)) {}
  bool updates() const override { return true; }

  // gradient, values, slots → result, slots. Numbers: learning rate, corrected learning rate.
  void emit(Emission& e) const override {
    const DataType type = e.type(1).data_type;
    UpdateTarget target{e.inputs[1], ops::cast(e.graph, e.inputs[0], type), {}, e.graph.layer};
    target.slots.assign(e.inputs.begin() + 2, e.inputs.end());
    emit_updates(e.graph, *rule_, {target}, e.number(0, type), e.number(1, type));
    const std::vector<ValueId> results = e.graph.nodes.back().outputs;
    for (std::size_t k = 0; k < results.size(); ++k) {
      e.graph.value(results[k]).writes = ir::kNone;  // where they go is the recording's matter
      e.set(k, results[k]);
    }
  }

  Optimizer& rule() const { return *rule_; }

 private:
  OptimizerPtr rule_;
};

std::int64_t elements(const Storage& storage) {
  return storage.data_type == DataType::kUInt8
             ? static_cast<std::int64_t>(storage.bytes() / sizeof(float))
             : element_count(storage.shape);
}

// The same bytes under the shape and order of `like`: what is updated together lies alike.
void lie_alike(Storage& storage, const Storage& like) {
  retype(storage, like.data_type, like.shape, like.layout);
}

}  // namespace

std::int64_t VectorDescriptor::vector_bytes() const {
  const auto element = static_cast<std::int64_t>(element_bytes(data_type.type));
  if (element > 0 && length >= 1 && length <= INT64_MAX / element) return length * element;
  throw InvalidArgument(
      "[MPSVectorDescriptor] expected 1 element or more of float16, float32 or float64 but got " +
      std::to_string(length) + " of " + name(data_type.type));
}

Vector::Vector(const Device& device, std::int64_t length, DataType data_type)
    : length_(length), data_type_(data_type) {
  if (length < 1) {
    throw InvalidArgument("[MPSVector] expected a length of 1 or more but got " +
                          std::to_string(length));
  }
  data_ = std::make_shared<Buffer>(make_storage(device.state(), data_type, {length}));
}

Vector::Vector(std::shared_ptr<Buffer> buffer, std::int64_t length, DataType data_type)
    : length_(length), data_type_(data_type), data_(std::move(buffer)) {
  if (data_ == nullptr) throw InvalidArgument("[MPSVector] expected a buffer but got none");
  const std::int64_t bytes =
      ir::product(length, static_cast<std::int64_t>(element_bytes(data_type)));
  if (length < 1 || data_->length() != static_cast<std::size_t>(bytes)) {
    throw InvalidArgument("[MPSVector] expected a buffer of " + std::to_string(bytes) +
                          " bytes but got " + std::to_string(data_->length()));
  }
  Storage& storage = *data_->storage();
  if (storage.data_type == DataType::kUInt8) {
    retype(storage, data_type, {length}, {});
  }
}

void NNOptimizer::set_learning_rate(float value) {
  expect_in(kFinite, kind(), "learning_rate", value);
  descriptor_.learning_rate = value;
}

OperationPtr NNOptimizer::make_operation() const {
  return std::make_shared<OptimizerOperation>(description(), make_rule(slots_ > least_slots()));
}

void NNOptimizer::check_slots(std::size_t count) const {
  if (count >= least_slots() && count <= most_slots()) return;
  refuse("expected " + std::to_string(least_slots()) + " vectors of its own but got " +
         std::to_string(count));
}

const std::shared_ptr<Storage>* NNOptimizer::slot_for(const VectorPtr& vector,
                                                      const Storage& values) const {
  if (vector == nullptr) refuse("expected a vector of its own but got none");
  const std::shared_ptr<Storage>& storage = vector->data()->storage();
  if (elements(*storage) != elements(values)) {
    refuse_shape("expected a vector of " + std::to_string(elements(values)) + " elements but got " +
                 std::to_string(elements(*storage)));
  }
  lie_alike(*storage, values);
  return &storage;
}

NNOptimizer::Part NNOptimizer::part_of(const Buffer& gradient, const Buffer& values,
                                       const Buffer& result,
                                       const std::vector<std::vector<VectorPtr>>& slots,
                                       std::size_t which, const char* what) const {
  check_slots(slots.size());
  Part part{&gradient.storage(), &values.storage(), &result.storage()};
  for (std::size_t k = 0; k < slots.size(); ++k) {
    if (which >= slots[k].size()) {
      refuse("expected two vectors per slot, for " + std::string(what) + ", but got " +
             std::to_string(slots[k].size()));
    }
    part.slots[k] = slot_for(slots[k][which], **part.values);
  }
  return part;
}

void NNOptimizer::encode(CommandBuffer& buffer, std::span<const Part> parts, std::size_t slots) {
  Recording& recording = this->recording(buffer);
  for (const Part& part : parts) {
    for (const auto* storage : {part.gradient, part.values, part.result}) {
      check_device(*storage, "gradient, values and result");
    }
    for (std::size_t k = 0; k < slots; ++k) check_device(*part.slots[k], "momentum vectors");
    for (const auto* other : {part.gradient, part.result}) {
      if (elements(**other) == elements(**part.values)) continue;
      refuse_shape("expected " + std::to_string(elements(**part.values)) +
                   " elements of gradient and result but got " + std::to_string(elements(**other)));
    }
  }
  if (slots != slots_) {
    slots_ = slots;
    changed();
  }
  Optimizer& rule = static_cast<const OptimizerOperation&>(*operation()).rule();
  rule.set_learning_rate(descriptor_.learning_rate);
  const double corrected = rule.corrected(descriptor_.learning_rate, next_time_step());
  for (const Part& part : parts) {
    Storage &gradient = **part.gradient, &values = **part.values, &result = **part.result;
    if (result.shape != values.shape) lie_alike(result, values);
    if (gradient.shape != values.shape) {
      const DataType own = gradient.data_type;
      retype(gradient, own == DataType::kUInt8 ? values.data_type : own, values.shape,
             values.layout);
    }
    recording.begin(operation());
    recording.input(*part.gradient);
    recording.input(*part.values);
    for (std::size_t k = 0; k < slots; ++k) recording.input(*part.slots[k]);
    recording.number(static_cast<double>(descriptor_.learning_rate));
    recording.number(corrected);
    recording.result(*part.result);
    for (std::size_t k = 0; k < slots; ++k) recording.result(*part.slots[k]);
    recording.end();
  }
}

void NNOptimizer::encode(CommandBuffer& buffer, const VectorPtr& gradient, const VectorPtr& values,
                         const std::vector<VectorPtr>& slots, const VectorPtr& result) {
  for (const VectorPtr* vector : {&gradient, &values, &result}) {
    if (*vector == nullptr) refuse("expected vectors of gradient, values and result but got none");
  }
  check_slots(slots.size());
  Part part{&gradient->data()->storage(), &values->data()->storage(), &result->data()->storage()};
  for (std::size_t k = 0; k < slots.size(); ++k) part.slots[k] = slot_for(slots[k], **part.values);
  encode(buffer, {&part, 1}, slots.size());
}

void NNOptimizer::expect_written(const Storage& values, const State& gradient,
                                 const CommandBuffer& buffer) const {
  const EncodedOn writers = values.writers_now();
  if (values.has_value() || writers.has(buffer.number()) || writers.has(BufferFate::kOpen)) return;
  refuse(
      "expected a gradient state that a gradient kernel has written but got " +
      gradient.description() +
      (writers.buffers().empty() ? ", a new one" : ", whose command buffer went without a commit"));
}

void NNOptimizer::encode(CommandBuffer& buffer, CNNConvolutionGradientState& gradient,
                         CNNConvolutionWeightsAndBiasesState& source,
                         const std::vector<std::vector<VectorPtr>>& slots,
                         CNNConvolutionWeightsAndBiasesState& result) {
  check_state(gradient, buffer);
  check_state(source, buffer);
  check_state(result, buffer);
  const Storage& written = *gradient.gradient_for_weights()->storage();
  expect_written(written, gradient, buffer);
  const auto part = [&](const Buffer& g, const Buffer& values, const Buffer& to,
                        std::size_t which) {
    Storage& storage = *values.storage();
    if (elements(storage) == elements(*g.storage())) lie_alike(storage, *g.storage());
    return part_of(g, values, to, slots, which, "weights and for biases");
  };
  std::array<Part, 2> parts{
      part(*gradient.gradient_for_weights(), *source.weights(), *result.weights(), 0)};
  const bool biased = source.biases() != nullptr && result.biases() != nullptr;
  if (biased) {
    parts[1] = part(*gradient.gradient_for_biases(), *source.biases(), *result.biases(), 1);
  }
  encode(buffer, std::span(parts).first(biased ? 2 : 1), slots.size());
  if (!written.has_value()) recording(buffer).comes_after(written.writers_now(), gradient);
  read(gradient);
  read(source);
}

void NNOptimizer::encode(CommandBuffer& buffer, CNNBatchNormalizationState& gradient,
                         CNNBatchNormalizationState& source,
                         const std::vector<std::vector<VectorPtr>>& slots,
                         CNNNormalizationGammaAndBetaState& result) {
  check_state(gradient, buffer);
  check_state(source, buffer);
  check_state(result, buffer);
  if (gradient.gradient_for_gamma() == nullptr) {
    refuse(
        "expected a state with gradients of gamma and beta but "
        "MPSCNNBatchNormalizationStatisticsGradient was not encoded");
  }
  const char* const what = "gamma and for beta";
  using Steps = BatchNormalizationSteps;
  if (Steps::is_incomplete(gradient)) refuse(Steps::kIncomplete);
  const std::array<Part, 2> parts{
      part_of(*gradient.gradient_for_gamma(), *source.gamma(), *result.gamma(), slots, 0, what),
      part_of(*gradient.gradient_for_beta(), *source.beta(), *result.beta(), slots, 1, what)};
  encode(buffer, parts, slots.size());
  Steps::order(recording(buffer), gradient);
  read(gradient);
  if (&source != &gradient) read(source);
}

NNOptimizerStochasticGradientDescent::NNOptimizerStochasticGradientDescent(
    const Device& device, float momentum_scale, bool use_nesterov_momentum,
    OptimizerDescriptor descriptor)
    : NNOptimizer(device, std::move(descriptor)),
      momentum_(momentum_scale),
      nesterov_(use_nesterov_momentum) {
  descriptor_.check(kind());
  expect_in(kShare, kind(), "momentum_scale", momentum_);
}
OptimizerPtr NNOptimizerStochasticGradientDescent::make_rule(bool) const {
  return std::make_shared<SGD>(descriptor_, momentum_, nesterov_);
}

NNOptimizerRMSProp::NNOptimizerRMSProp(const Device& device, double decay, float epsilon,
                                       OptimizerDescriptor descriptor)
    : NNOptimizer(device, std::move(descriptor)), decay_(decay), epsilon_(epsilon) {
  descriptor_.check(kind());
  expect_in(kShare, kind(), "decay", decay_);
  expect_in(kNotNegative, kind(), "epsilon", epsilon_);
}
OptimizerPtr NNOptimizerRMSProp::make_rule(bool) const {
  RMSPropOptions options;
  options.alpha = static_cast<float>(decay_);
  options.epsilon = epsilon_;
  return std::make_shared<RMSProp>(descriptor_, options);
}

NNOptimizerAdam::NNOptimizerAdam(const Device& device, double beta1, double beta2, float epsilon,
                                 std::int64_t time_step, OptimizerDescriptor descriptor)
    : NNOptimizer(device, std::move(descriptor)), beta1_(beta1), beta2_(beta2), epsilon_(epsilon) {
  descriptor_.check(kind());
  // The rule takes them as float32.
  expect_in(kShareBelowOne, kind(), "beta1", static_cast<float>(beta1_));
  expect_in(kShareBelowOne, kind(), "beta2", static_cast<float>(beta2_));
  expect_in(kNotNegative, kind(), "epsilon", epsilon_);
  set_time_step(time_step);
}
void NNOptimizerAdam::set_time_step(std::int64_t value) {
  constexpr std::int64_t kMost = Optimizer::kMostTimeSteps - 1;
  if (value < 0 || value > kMost) {
    refuse("expected time_step to be from 0 to " + std::to_string(kMost) + " but got " +
           std::to_string(value));
  }
  time_step_ = value;
}
OptimizerPtr NNOptimizerAdam::make_rule(bool has_maximum) const {
  AdamOptions options;
  options.beta1 = static_cast<float>(beta1_);
  options.beta2 = static_cast<float>(beta2_);
  options.epsilon = epsilon_;
  options.uses_amsgrad = has_maximum;
  return std::make_shared<Adam>(descriptor_, options);
}

}  // namespace traingraph::mps
