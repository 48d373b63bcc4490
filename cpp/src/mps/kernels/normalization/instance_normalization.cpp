// Instance and group normalization and their gradient as ops: mean and variance over rows of
// (N, G, K), gamma and beta per channel.
#include <traingraph/mps/instance_normalization.h>

#include <bit>
#include <limits>
#include <set>

#include <traingraph/errors.h>

#include "mps/kernels/forms.h"
#include "mps/kernels/loaded_source.h"
#include "mps/recording/owner_of.h"

namespace traingraph::mps {
namespace {

using ir::Scalar;
using ir::ScalarList;
using ir::ValueId;

// The mean over each group of (N, G, K), as (N, G, 1).
ValueId group_mean(Emission& e, ValueId rows) {
  const auto count = static_cast<double>(e.graph.type(rows).shape[2]);
  return ops::unary(e.graph, Scalar::scale, ops::reduce(e.graph, ir::ReduceKind::sum, rows, {2}),
                    1 / count);
}

// What both kernels begin with: x^ as (N, G, K) and 1 / sqrt(variance + epsilon) as (N, G, 1).
struct Normalized {
  ValueId rows;
  ValueId inverse;
};
Normalized normalized(Emission& e, ValueId x, std::int64_t groups, double epsilon) {
  const Shape shape = e.graph.type(x).shape;
  const std::int64_t count = shape[1] / groups * shape[2] * shape[3];
  const ValueId rows = ops::reshape(e.graph, x, {shape[0], groups, count});
  const ValueId centered = ops::binary(e.graph, Scalar::subtract, rows, group_mean(e, rows));
  const ValueId variance = group_mean(e, ops::unary(e.graph, Scalar::square, centered));
  ScalarList list{1, {}, {}};
  list.results = {list.add(Scalar::rsqrt, list.add(Scalar::affine, 0, -1, 1, epsilon))};
  const ValueId inverse = ops::elementwise(e.graph, std::move(list), {variance})[0];
  return {ops::binary(e.graph, Scalar::multiply, centered, inverse), inverse};
}

// x, gamma, beta → y
class ImageNormalizationOperation final : public Operation {
 public:
  ImageNormalizationOperation(const std::string& subject_in, std::int64_t groups, double epsilon)
      : Operation(subject_in), groups_(groups), epsilon_(epsilon) {}
  void emit(Emission& e) const override {
    const ir::Type type = e.type(0);
    const Normalized found = normalized(e, e.inputs[0], groups_, epsilon_);
    ScalarList list{3, {}, {}};
    list.results = {list.add(Scalar::add, list.add(Scalar::multiply, 0, 1), 2)};
    e.set(0, ops::elementwise(e.graph, std::move(list),
                              {ops::reshape(e.graph, found.rows, type.shape),
                               broadcastable(e, e.inputs[1], type.data_type),
                               broadcastable(e, e.inputs[2], type.data_type)})[0]);
  }

 private:
  std::int64_t groups_;
  double epsilon_;
};

// dy, x, gamma → dgamma, dbeta of each state, dx. Constants: groups, the bits of epsilon.
class NormalizationGradientOperation final : public Operation {
 public:
  using Operation::Operation;
  void emit(Emission& e) const override {
    const ir::Type type = e.type(0);
    const auto groups = static_cast<std::int64_t>(e.constants[0]);
    const auto epsilon =
        static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(e.constants[1])));
    const Normalized found = normalized(e, e.inputs[1], groups, epsilon);
    const ValueId x = ops::reshape(e.graph, found.rows, type.shape);
    const ValueId dy = e.inputs[0];
    write_sums(e, 0, ops::binary(e.graph, Scalar::multiply, dy, x));
    write_sums(e, 1, dy);

    const ValueId gamma = broadcastable(e, e.inputs[2], type.data_type);
    const ValueId h = ops::reshape(e.graph, ops::binary(e.graph, Scalar::multiply, dy, gamma),
                                   e.graph.type(found.rows).shape);
    const ValueId along = group_mean(e, ops::binary(e.graph, Scalar::multiply, h, found.rows));
    ScalarList list{5, {}, {}};  // h, mean of h, x^, mean of h x^, inverse deviation
    const int moved = list.add(Scalar::subtract, list.add(Scalar::subtract, 0, 1),
                               list.add(Scalar::multiply, 2, 3));
    list.results = {list.add(Scalar::multiply, moved, 4)};
    const ValueId dx = ops::elementwise(e.graph, std::move(list),
                                        {h, group_mean(e, h), found.rows, along, found.inverse})[0];
    e.set(e.results.size() - 1, ops::reshape(e.graph, dx, type.shape));
  }

 private:
  // Per channel, over the images of each state.
  static void write_sums(Emission& e, std::size_t which, ValueId x) {
    const Shape shape = e.graph.type(x).shape;
    const auto states = static_cast<std::int64_t>((e.results.size() - 1) / 2);
    const std::int64_t images = shape[0] / states;
    ValueId sums = ops::reduce(e.graph, ir::ReduceKind::sum, x, {2, 3});
    for (std::int64_t k = 0; k < states; ++k) {
      ValueId own = sums;
      if (states > 1) {
        own =
            ops::apply1(e.graph, ir::Op::slice, ir::SliceAttributes{0, k * images, images}, {own});
      }
      if (images > 1) own = ops::reduce(e.graph, ir::ReduceKind::sum, own, {0});
      const std::size_t result = 2 * static_cast<std::size_t>(k) + which;
      own = ops::reshape(e.graph, own, {shape[1]});
      e.set(result, ops::cast(e.graph, own, e.results[result].data_type));
    }
  }
};

// state → gamma, beta of a kernel
class ImageReloadOperation final : public Operation {
 public:
  using Operation::Operation;
  void emit(Emission& e) const override {
    e.set(0, e.inputs[0]);
    e.set(1, e.inputs[1]);
  }
};

std::shared_ptr<Buffer> channel_buffer(const Device& device, std::int64_t channels, DataType type,
                                       const CommandBuffer* temporary_on) {
  StoragePtr storage = make_storage(device.state(), type, {channels});
  storage->owner = temporary_on == nullptr ? 0 : temporary_on->number();
  return std::make_shared<Buffer>(std::move(storage));
}

void add_constants(Recording& recording, const CNNInstanceNormalization& kernel) {
  recording.constant(static_cast<std::uint64_t>(kernel.number_of_groups()));
  recording.constant(std::bit_cast<std::uint32_t>(kernel.epsilon()));
}

// The different states, in their order.
std::vector<CNNInstanceNormalizationGradientState*> different(const StateBatch& states) {
  std::vector<CNNInstanceNormalizationGradientState*> found;
  std::set<const State*> seen;
  for (const StatePtr& state : states) {
    if (!seen.insert(state.get()).second) continue;
    found.push_back(static_cast<CNNInstanceNormalizationGradientState*>(state.get()));
  }
  return found;
}

}  // namespace

CNNInstanceNormalizationDataSource::~CNNInstanceNormalizationDataSource() = default;
float CNNInstanceNormalizationDataSource::epsilon() const {
  return std::numeric_limits<float>::min();
}
std::shared_ptr<CNNNormalizationGammaAndBetaState>
CNNInstanceNormalizationDataSource::update_gamma_and_beta(CommandBuffer&, const StateBatch&) {
  return nullptr;
}
bool CNNInstanceNormalizationDataSource::update_gamma_and_beta(const StateBatch&) { return false; }

void CNNInstanceNormalizationGradientState::visit_owned(OwnershipVisitor& visitor) const {
  visitor(kernel_);
}

CNNInstanceNormalizationGradientState::CNNInstanceNormalizationGradientState(
    const CNNInstanceNormalization& kernel, ImageDescriptor source,
    const CommandBuffer* temporary_on)
    : GradientState(kernel.window(), source, temporary_on),
      kernel_(owner_of<const CNNInstanceNormalization>(kernel, kernel.description())) {
  const DataType type = data_type(source.channel_format) == DataType::kFloat64 ? DataType::kFloat64
                                                                               : DataType::kFloat32;
  const std::int64_t channels = kernel.number_of_feature_channels();
  // Gamma and beta are the kernel's own, as they are when they are read.
  gamma_ = std::make_shared<Buffer>(kernel.buffers().gamma);
  beta_ = std::make_shared<Buffer>(kernel.buffers().beta);
  gradient_for_gamma_ = channel_buffer(kernel.device(), channels, type, temporary_on);
  gradient_for_beta_ = channel_buffer(kernel.device(), channels, type, temporary_on);
}

// --- forward -------------------------------------------------------------------------------------

CNNInstanceNormalization::CNNInstanceNormalization(const Device& device,
                                                   CNNInstanceNormalizationDataSourcePtr source)
    : CNNInstanceNormalization(device, std::move(source), 0, "MPSCNNInstanceNormalization") {}

CNNInstanceNormalization::CNNInstanceNormalization(const Device& device,
                                                   CNNInstanceNormalizationDataSourcePtr source,
                                                   std::int64_t groups, const char* kind)
    : CNNKernel(device), source_(std::move(source)) {
  const std::string who = "[" + std::string(kind) + "] ";
  if (source_ == nullptr) throw InvalidArgument(who + "expected a data source but got none");
  channels_ = source_->number_of_feature_channels();
  if (channels_ < 1) {
    throw InvalidArgument(who + "expected 1 channel or more but got " + std::to_string(channels_));
  }
  groups_ = groups == 0 ? channels_ : groups;
  if (groups_ < 1 || channels_ % groups_ != 0) {
    throw InvalidArgument(who + "expected groups that divide " + std::to_string(channels_) +
                          " channels but got " + std::to_string(groups_));
  }
  label = source_->label();
  epsilon_ = source_->epsilon();
  buffers_.gamma = make_storage(device.state(), DataType::kFloat32, {channels_});
  buffers_.beta = make_storage(device.state(), DataType::kFloat32, {channels_});
  load(*source_, kind);
}

void CNNInstanceNormalization::load(CNNInstanceNormalizationDataSource& source,
                                    const std::string& who) {
  while_loaded(source, who, [&] {
    const ChannelNumbers numbers[] = {{"gamma", source.gamma(), 1, *buffers_.gamma},
                                      {"beta", source.beta(), 0, *buffers_.beta}};
    write_all(numbers, who);
  });
}

void CNNInstanceNormalization::reload_gamma_and_beta_from_data_source() {
  reload_data_source(source_);
}

void CNNInstanceNormalization::reload_data_source(CNNInstanceNormalizationDataSourcePtr source) {
  check_channels(source, channels_);
  check_groups(*source);
  load(*source, kind());
  source_ = std::move(source);
}

void CNNInstanceNormalization::reload_gamma_and_beta(CommandBuffer& buffer,
                                                     CNNNormalizationGammaAndBetaState& state) {
  check_state(state, buffer);
  for (const Buffer* from : {state.gamma().get(), state.beta().get()}) {
    if (from->length() != buffers_.gamma->bytes()) {
      refuse_shape("expected gamma and beta of " + std::to_string(buffers_.gamma->bytes()) +
                   " bytes but got " + std::to_string(from->length()));
    }
    // Plain bytes become what they are used as.
    Storage& storage = *from->storage();
    if (storage.data_type != DataType::kUInt8) continue;
    storage.data_type = DataType::kFloat32;
    storage.shape = {channels_};
  }
  static const auto operation = std::make_shared<ImageReloadOperation>("reload of gamma and beta");
  Recording& recording = this->recording(buffer);
  recording.begin(operation);
  recording.input(state.gamma()->storage());
  recording.input(state.beta()->storage());
  recording.result(buffers_.gamma);
  recording.result(buffers_.beta);
  recording.end();
  read(state);
}

OperationPtr CNNInstanceNormalization::make_operation() const {
  return std::make_shared<ImageNormalizationOperation>(description(), groups_,
                                                       static_cast<double>(epsilon_));
}
void CNNInstanceNormalization::check_source(const ImageDescriptor& source) const {
  if (source.feature_channels == channels_) return;
  refuse_shape("expected source images of " + std::to_string(channels_) + " channels but got " +
               to_string(source));
}
StatePtr CNNInstanceNormalization::make_state(const ImageDescriptor& source,
                                              const CommandBuffer* on) const {
  return std::make_shared<CNNInstanceNormalizationGradientState>(*this, source, on);
}
void CNNInstanceNormalization::add_operands(Recording& recording) const {
  recording.input(buffers_.gamma);
  recording.input(buffers_.beta);
  add_constants(recording, *this);
}

namespace {

// Raises InvalidArgument for 0, which would mean as many as channels.
std::int64_t groups_of(const CNNGroupNormalizationDataSourcePtr& source) {
  const std::int64_t groups = source == nullptr ? 1 : source->number_of_groups();
  if (groups >= 1) return groups;
  throw InvalidArgument("[MPSCNNGroupNormalization] expected 1 group or more but got " +
                        std::to_string(groups));
}

}  // namespace

CNNGroupNormalization::CNNGroupNormalization(const Device& device,
                                             const CNNGroupNormalizationDataSourcePtr& source)
    : CNNInstanceNormalization(device, source, groups_of(source), "MPSCNNGroupNormalization") {}
void CNNGroupNormalization::check_groups(const CNNInstanceNormalizationDataSource& source) const {
  const auto* const grouped = dynamic_cast<const CNNGroupNormalizationDataSource*>(&source);
  if (grouped == nullptr) return;
  const std::int64_t got = grouped->number_of_groups();
  if (got == number_of_groups()) return;
  refuse_shape("expected a data source of " + std::to_string(number_of_groups()) +
               " groups but got " + std::to_string(got));
}
StatePtr CNNGroupNormalization::make_state(const ImageDescriptor& source,
                                           const CommandBuffer* on) const {
  return std::make_shared<CNNGroupNormalizationGradientState>(*this, source, on);
}

// --- gradient ------------------------------------------------------------------------------------

OperationPtr CNNInstanceNormalizationGradient::make_operation() const {
  return std::make_shared<NormalizationGradientOperation>(description());
}
bool CNNInstanceNormalizationGradient::takes(const State& state) const {
  return dynamic_cast<const CNNInstanceNormalizationGradientState*>(&state) != nullptr &&
         dynamic_cast<const CNNGroupNormalizationGradientState*>(&state) == nullptr;
}
bool CNNGroupNormalizationGradient::takes(const State& state) const {
  return dynamic_cast<const CNNGroupNormalizationGradientState*>(&state) != nullptr;
}

void CNNInstanceNormalizationGradient::add_operands(Recording& recording,
                                                    const StateBatch& states) {
  const auto own = different(states);
  const CNNInstanceNormalization& kernel = *own[0]->normalization();
  for (const auto* state : own) {
    const bool fits = state->normalization() == own[0]->normalization() &&
                      (own.size() == 1 || own.size() == states.size());
    if (fits) continue;
    recording.cancel();
    refuse("expected states of one forward kernel, one per image or one for all, but got others");
  }
  recording.input(kernel.buffers().gamma);
  add_constants(recording, kernel);
  for (const auto* state : own) {
    recording.result(state->gradient_for_gamma()->storage());
    recording.result(state->gradient_for_beta()->storage());
  }
}

}  // namespace traingraph::mps
