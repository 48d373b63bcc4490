#include <traingraph/mps/dropout.h>

#include <algorithm>
#include <bit>

#include <traingraph/errors.h>

#include "mps/emission.h"
#include "runtime/philox.h"

namespace traingraph::mps {
namespace {

using ir::Scalar;
using ir::ValueId;

// Of the decisions for images (N, C, H, W).
Shape mask_shape(const DropoutParameters& p, const Shape& images) {
  Shape shape = images;
  if (p.mask_stride_channels == 0) shape[1] = 1;
  if (p.mask_stride_y == 0) shape[2] = 1;
  if (p.mask_stride_x == 0) shape[3] = 1;
  return shape;
}

double rate_of(const DropoutParameters& p) { return 1 - static_cast<double>(p.keep_probability); }

// x mask / keep probability, 0 where the mask is. The mask was given, 0 or 1.
ValueId with_given_mask(Emission& e, const DropoutParameters& p, ValueId x, ValueId given) {
  const ir::Type type = e.graph.type(x);
  const ValueId keep = ops::cast(e.graph, given, type.data_type);
  const ValueId scale = ops::filled(e.graph, e.graph.type(keep), 1 / (1 - rate_of(p)));
  return ops::binary(e.graph, Scalar::mask, x, ops::binary(e.graph, Scalar::multiply, keep, scale));
}

// 0 or 1 / keep probability
ValueId mask(Emission& e, const DropoutParameters& p, DataType type, const Shape& images) {
  const ValueId ones = ops::filled(e.graph, {type, mask_shape(p, images), false}, 1);
  const ir::DropoutAttributes attributes{rate_of(p), p.seed};
  return ops::apply1(e.graph, ir::Op::dropout, attributes, {ones, e.number(0, DataType::kInt64)});
}

// x [, mask] → y. Numbers: the step.
class DropoutOperation final : public Operation {
 public:
  DropoutOperation(const std::string& subject_in, const DropoutParameters& p)
      : Operation(subject_in), p_(p) {}
  void emit(Emission& e) const override {
    if (e.inputs.size() > 1) {
      e.set(0, with_given_mask(e, p_, e.inputs[0], e.inputs[1]));
      return;
    }
    const ir::Type type = e.type(0);
    e.set(0,
          ops::binary(e.graph, Scalar::mask, e.inputs[0], mask(e, p_, type.data_type, type.shape)));
  }

 private:
  DropoutParameters p_;
};

// dy, x [, mask] → dx. Constants: images that were encoded together, the first of these among them.
class DropoutGradientOperation final : public Operation {
 public:
  DropoutGradientOperation(const std::string& subject_in, const DropoutParameters& p)
      : Operation(subject_in), p_(p) {}
  void emit(Emission& e) const override {
    if (e.inputs.size() > 2) {
      e.set(0, with_given_mask(e, p_, e.inputs[0], e.inputs[2]));
      return;
    }
    const ir::Type type = e.type(0);
    Shape all = type.shape;
    all[0] = static_cast<std::int64_t>(e.constants[0]);
    ValueId own = mask(e, p_, type.data_type, all);
    if (all[0] != type.shape[0]) {
      const auto first = static_cast<std::int64_t>(e.constants[1]);
      own =
          ops::apply1(e.graph, ir::Op::slice, ir::SliceAttributes{0, first, type.shape[0]}, {own});
    }
    e.set(0, ops::binary(e.graph, Scalar::mask, e.inputs[0], own));
  }

 private:
  DropoutParameters p_;
};

void check_parameters(const DropoutParameters& p, const char* kind) {
  if (!(p.keep_probability > 0 && p.keep_probability < 1)) {
    throw InvalidArgument("[" + std::string(kind) +
                          "] expected a keep probability above 0 and below 1 but got " +
                          std::to_string(p.keep_probability));
  }
  for (std::int64_t stride : {p.mask_stride_x, p.mask_stride_y, p.mask_stride_channels}) {
    if (stride == 0 || stride == 1) continue;
    throw InvalidArgument("[" + std::string(kind) + "] expected mask strides of 0 or 1 but got " +
                          std::to_string(stride));
  }
}

// Those that were given to states of this kernel.
ImageBatch masks_of(const StateBatch& states) {
  ImageBatch masks;
  for (const StatePtr& state : states) {
    const auto& own = static_cast<const CNNDropoutGradientState&>(*state);
    if (own.mask() != nullptr) masks.push_back(own.mask());
  }
  return masks;
}

void add_step(Recording& recording, std::int64_t step) {
  recording.number(std::bit_cast<double>(step));
}

}  // namespace

ImageDescriptor CNNDropoutGradientState::mask_descriptor() const {
  const ImageDescriptor& d = source();
  const Shape shape =
      mask_shape(parameters_, {d.number_of_images, d.feature_channels, d.height, d.width});
  return {ChannelFormat::kFloat32, shape[3], shape[2], shape[1], shape[0]};
}

void CNNDropoutGradientState::set_mask_data(const std::vector<std::uint8_t>& bytes) {
  const ImageDescriptor d = mask_descriptor();
  const auto each = static_cast<std::size_t>(d.height * d.width * d.feature_channels);
  if (bytes.size() != each * static_cast<std::size_t>(d.number_of_images)) {
    throw InvalidArgument("[" + description() + "] expected one byte per element of a mask " +
                          to_string(d) + " but got " + std::to_string(bytes.size()));
  }
  if (encoded()) {
    throw InvalidArgument("[" + description() +
                          "] expected a new state but got one that has a mask since its encoding");
  }
  std::vector<float> numbers(bytes.size());
  std::ranges::transform(bytes, numbers.begin(),
                         [](std::uint8_t byte) { return byte == 0 ? 0.0f : 1.0f; });
  mask_ = Image::create(device_, d);
  PixelLayout layout{DataLayout::kHeightWidthChannels};
  layout.images = d.number_of_images;
  mask_->write_bytes(numbers.data(), numbers.size() * sizeof(float), layout, 0);
}

std::vector<std::uint8_t> CNNDropoutGradientState::mask_data() const {
  if (mask_ != nullptr) {
    const ImageDescriptor& d = mask_->descriptor();
    std::vector<float> numbers(static_cast<std::size_t>(d.number_of_images) * mask_->image_bytes() /
                               sizeof(float));
    PixelLayout layout{DataLayout::kHeightWidthChannels};
    layout.images = d.number_of_images;
    mask_->read_bytes(numbers.data(), numbers.size() * sizeof(float), layout, 0);
    return {numbers.begin(), numbers.end()};
  }
  if (!encoded()) {
    throw InvalidArgument("[" + description() +
                          "] expected a state that MPSCNNDropout was encoded with but got a new "
                          "one");
  }
  const ImageDescriptor& d = source();
  const Shape shape =
      mask_shape(parameters_, {d.number_of_images, d.feature_channels, d.height, d.width});
  const std::int64_t pixels = shape[2] * shape[3];
  const std::int64_t count = shape[0] * shape[1] * pixels;
  const std::uint32_t threshold = philox::keep_threshold(rate_of(parameters_));
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count));
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t image = k / (shape[1] * pixels);
    const std::int64_t channel = k / pixels % shape[1];
    const std::int64_t to = (image * pixels + k % pixels) * shape[1] + channel;
    const auto element = static_cast<std::uint64_t>(image_ * shape[1] * pixels + k);
    const std::uint32_t word =
        philox::word_of(parameters_.seed, static_cast<std::uint64_t>(step_), element);
    bytes[static_cast<std::size_t>(to)] = word < threshold ? 0 : 1;
  }
  return bytes;
}

CNNDropout::CNNDropout(const Device& device, const DropoutParameters& parameters)
    : CNNKernel(device), parameters_(parameters) {
  check_parameters(parameters_, kind());
}
OperationPtr CNNDropout::make_operation() const {
  return std::make_shared<DropoutOperation>(description(), parameters_);
}
StatePtr CNNDropout::make_state(const ImageDescriptor& source, const CommandBuffer* on) const {
  return std::make_shared<CNNDropoutGradientState>(device(), parameters_, source, on);
}

void CNNDropout::record(CommandBuffer& buffer, const ImageBatch& sources, const StateBatch& states,
                        const ImageBatch& destinations) {
  const std::int64_t each = sources[0]->descriptor().number_of_images;
  if (!states.empty() && states.size() != sources.size()) {
    refuse("expected one state per image, " + std::to_string(sources.size()) + ", but got " +
           std::to_string(states.size()));
  }
  for (const StatePtr& state : states) {
    const auto* own = dynamic_cast<const CNNDropoutGradientState*>(state.get());
    if (own == nullptr || !(own->parameters() == parameters_)) {
      refuse("expected a state of this kernel but got " + state->description());
    }
  }
  const ImageBatch masks = masks_of(states);
  if (!masks.empty() && (masks.size() != states.size() || !source_channels_.whole())) {
    refuse(masks.size() == states.size()
               ? "expected a mask of the kernel's own for some of the channels but got one"
               : "expected masks for all images or for none but got " +
                     std::to_string(masks.size()) + " for " + std::to_string(states.size()));
  }
  Recording& recording = this->recording(buffer);
  recording.begin(operation());
  add_source(recording, sources);
  if (!masks.empty()) recording.input(masks);
  add_destination(recording, sources, destinations);
  add_step(recording, steps_);
  recording.end();
  for (std::size_t k = 0; k < states.size(); ++k) {
    auto& state = static_cast<CNNDropoutGradientState&>(*states[k]);
    state.update(window_);
    state.step_ = steps_;
    state.image_ = static_cast<std::int64_t>(k) * each;
    state.images_ = static_cast<std::int64_t>(sources.size()) * each;
  }
  ++steps_;
}

CNNDropoutGradient::CNNDropoutGradient(const Device& device, const DropoutParameters& parameters)
    : CNNGradientKernel(device), parameters_(parameters) {
  check_parameters(parameters_, kind());
}
OperationPtr CNNDropoutGradient::make_operation() const {
  return std::make_shared<DropoutGradientOperation>(description(), parameters_);
}
bool CNNDropoutGradient::takes(const State& state) const {
  const auto* own = dynamic_cast<const CNNDropoutGradientState*>(&state);
  return own != nullptr && own->parameters() == parameters_;
}

void CNNDropoutGradient::add_operands(Recording& recording, const StateBatch& states) {
  const auto& first = static_cast<const CNNDropoutGradientState&>(*states[0]);
  std::int64_t next = first.image();
  for (const StatePtr& state : states) {
    const auto& own = static_cast<const CNNDropoutGradientState&>(*state);
    if (own.encoded() && own.step() == first.step() && own.image() == next) {
      next += own.source().number_of_images;
      continue;
    }
    recording.cancel();
    refuse("expected states that were encoded together, in their order, but got " +
           std::string(own.encoded() ? "others" : "one that was not encoded"));
  }
  const ImageBatch masks = masks_of(states);
  if (!masks.empty()) recording.input(masks);
  recording.constant(static_cast<std::uint64_t>(first.images()));
  recording.constant(static_cast<std::uint64_t>(first.image()));
  add_step(recording, first.step());
}

}  // namespace traingraph::mps
