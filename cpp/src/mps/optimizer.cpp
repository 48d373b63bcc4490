#include <traingraph/mps/optimizer.h>

#include <traingraph/errors.h>

#include "mps/borrowed.h"
#include "mps/emission.h"
#include "optimizers/update_emitter.h"

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
  const std::size_t bytes = element_bytes(data_type) * static_cast<std::size_t>(length);
  if (length < 1 || data_->length() != bytes) {
    throw InvalidArgument("[MPSVector] expected a buffer of " + std::to_string(bytes) +
                          " bytes but got " + std::to_string(data_->length()));
  }
  Storage& storage = *data_->storage();
  if (storage.data_type == DataType::kUInt8) {
    retype(storage, data_type, {length}, {});
  }
}

OperationPtr NNOptimizer::make_operation() const {
  return std::make_shared<OptimizerOperation>(description(), make_rule(slots_ > least_slots()));
}

std::vector<std::shared_ptr<Storage>> NNOptimizer::slots_for(const std::vector<VectorPtr>& slots,
                                                             const Storage& values) const {
  if (slots.size() < least_slots() || slots.size() > most_slots()) {
    refuse("expected " + std::to_string(least_slots()) + " vectors of its own but got " +
           std::to_string(slots.size()));
  }
  std::vector<std::shared_ptr<Storage>> result;
  for (const VectorPtr& slot : slots) {
    if (slot == nullptr) refuse("expected a vector of its own but got none");
    Storage& storage = *slot->data()->storage();
    if (elements(storage) != elements(values)) {
      refuse_shape("expected a vector of " + std::to_string(elements(values)) +
                   " elements but got " + std::to_string(elements(storage)));
    }
    lie_alike(storage, values);
    result.push_back(slot->data()->storage());
  }
  return result;
}

void NNOptimizer::encode(CommandBuffer& buffer, const std::vector<Part>& parts) {
  Recording& recording = this->recording(buffer);
  for (const Part& part : parts) {
    for (const std::shared_ptr<Storage>& other : {part.gradient, part.result}) {
      if (elements(*other) == elements(*part.values)) continue;
      refuse_shape("expected " + std::to_string(elements(*part.values)) +
                   " elements of gradient and result but got " + std::to_string(elements(*other)));
    }
  }
  if (parts[0].slots.size() != slots_) {
    slots_ = parts[0].slots.size();
    changed();
  }
  Optimizer& rule = static_cast<const OptimizerOperation&>(*operation()).rule();
  rule.set_learning_rate(descriptor_.learning_rate);
  const double corrected = rule.corrected_learning_rate(next_time_step());
  for (const Part& part : parts) {
    if (part.result->shape != part.values->shape) lie_alike(*part.result, *part.values);
    if (part.gradient->shape != part.values->shape) {
      const DataType own = part.gradient->data_type;
      retype(*part.gradient, own == DataType::kUInt8 ? part.values->data_type : own,
             part.values->shape, part.values->layout);
    }
    recording.begin(operation());
    recording.input(part.gradient);
    recording.input(part.values);
    for (const auto& slot : part.slots) recording.input(slot);
    recording.number(static_cast<double>(descriptor_.learning_rate));
    recording.number(corrected);
    recording.result(part.result);
    for (const auto& slot : part.slots) recording.result(slot);
    recording.end();
  }
}

void NNOptimizer::encode(CommandBuffer& buffer, const VectorPtr& gradient, const VectorPtr& values,
                         const std::vector<VectorPtr>& slots, const VectorPtr& result) {
  for (const VectorPtr& vector : {gradient, values, result}) {
    if (vector == nullptr) refuse("expected vectors of gradient, values and result but got none");
  }
  const std::shared_ptr<Storage>& storage = values->data()->storage();
  encode(buffer, {{gradient->data()->storage(), storage, result->data()->storage(),
                   slots_for(slots, *storage)}});
}

void NNOptimizer::encode(CommandBuffer& buffer, CNNConvolutionGradientState& gradient,
                         CNNConvolutionWeightsAndBiasesState& source,
                         const std::vector<std::vector<VectorPtr>>& slots,
                         CNNConvolutionWeightsAndBiasesState& result) {
  check_state(gradient, buffer);
  check_state(source, buffer);
  check_state(result, buffer);
  const bool biased = source.biases() != nullptr && result.biases() != nullptr;
  std::vector<Part> parts;
  auto add = [&](const std::shared_ptr<Buffer>& g, const std::shared_ptr<Buffer>& values,
                 const std::shared_ptr<Buffer>& out, std::size_t which) {
    Storage& storage = *values->storage();
    if (elements(storage) == elements(*g->storage())) lie_alike(storage, *g->storage());
    std::vector<VectorPtr> own;
    for (const std::vector<VectorPtr>& slot : slots) {
      if (which >= slot.size()) {
        refuse("expected two vectors per slot, for weights and for biases, but got " +
               std::to_string(slot.size()));
      }
      own.push_back(slot[which]);
    }
    parts.push_back({g->storage(), values->storage(), out->storage(), slots_for(own, storage)});
  };
  add(gradient.gradient_for_weights(), source.weights(), result.weights(), 0);
  if (biased) add(gradient.gradient_for_biases(), source.biases(), result.biases(), 1);
  encode(buffer, parts);
  read(StateBatch{borrowed(gradient)});
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
  std::vector<Part> parts;
  auto add = [&](const std::shared_ptr<Buffer>& g, const std::shared_ptr<Buffer>& values,
                 const std::shared_ptr<Buffer>& out, std::size_t which) {
    std::vector<VectorPtr> own;
    for (const std::vector<VectorPtr>& slot : slots) {
      if (which >= slot.size()) {
        refuse("expected two vectors per slot, for gamma and for beta, but got " +
               std::to_string(slot.size()));
      }
      own.push_back(slot[which]);
    }
    parts.push_back(
        {g->storage(), values->storage(), out->storage(), slots_for(own, *values->storage())});
  };
  add(gradient.gradient_for_gamma(), source.gamma(), result.gamma(), 0);
  add(gradient.gradient_for_beta(), source.beta(), result.beta(), 1);
  encode(buffer, parts);
  read(StateBatch{borrowed(gradient), borrowed(source)});
}

NNOptimizerStochasticGradientDescent::NNOptimizerStochasticGradientDescent(
    const Device& device, float momentum_scale, bool use_nesterov_momentum,
    OptimizerDescriptor descriptor)
    : NNOptimizer(device, std::move(descriptor)),
      momentum_(momentum_scale),
      nesterov_(use_nesterov_momentum) {}
OptimizerPtr NNOptimizerStochasticGradientDescent::make_rule(bool) const {
  return std::make_shared<SGD>(descriptor_, momentum_, nesterov_);
}

NNOptimizerRMSProp::NNOptimizerRMSProp(const Device& device, double decay, float epsilon,
                                       OptimizerDescriptor descriptor)
    : NNOptimizer(device, std::move(descriptor)), decay_(decay), epsilon_(epsilon) {}
OptimizerPtr NNOptimizerRMSProp::make_rule(bool) const {
  RMSPropOptions options;
  options.alpha = static_cast<float>(decay_);
  options.epsilon = epsilon_;
  return std::make_shared<RMSProp>(descriptor_, options);
}

NNOptimizerAdam::NNOptimizerAdam(const Device& device, double beta1, double beta2, float epsilon,
                                 std::int64_t time_step, OptimizerDescriptor descriptor)
    : NNOptimizer(device, std::move(descriptor)),
      beta1_(beta1),
      beta2_(beta2),
      epsilon_(epsilon),
      time_step_(time_step) {}
OptimizerPtr NNOptimizerAdam::make_rule(bool has_maximum) const {
  AdamOptions options;
  options.beta1 = static_cast<float>(beta1_);
  options.beta2 = static_cast<float>(beta2_);
  options.epsilon = epsilon_;
  options.uses_amsgrad = has_maximum;
  return std::make_shared<Adam>(descriptor_, options);
}

}  // namespace traingraph::mps
