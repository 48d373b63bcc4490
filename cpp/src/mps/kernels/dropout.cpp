// CNNDropout and CNNDropoutGradient as ops: a mask drawn from seed and step, or one that was set on
// the state, times 1 / keep probability.
#include <traingraph/mps/dropout.h>

#include <algorithm>

#include <traingraph/errors.h>

#include "ir/number_text.h"
#include "mps/kernels/dropout_encoding.h"
#include "mps/recording/emission.h"

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

// A backend's kernels by name have masks of their own, so those of one encoding are all by name, or
// none: it is asked with what forward and gradient kernel have in common. Numbers: the step, and
// the seed of a kernel by name.
class MaskedOperation : public Operation {
 public:
  MaskedOperation(const std::string& subject_in, const DropoutParameters& p)
      : Operation(subject_in), p_(p) {}
  DataType number_type() const final { return DataType::kInt64; }

 protected:
  DropoutParameters p_;
};

// x [, mask] → y
class DropoutOperation final : public MaskedOperation {
 public:
  using MaskedOperation::MaskedOperation;
  void emit(Emission& e) const override {
    if (e.inputs.size() > 1) {
      e.set(0, with_given_mask(e, p_, e.inputs[0], e.inputs[1]));
      return;
    }
    const ir::Type type = e.type(0);
    e.set(0,
          ops::binary(e.graph, Scalar::mask, e.inputs[0], mask(e, p_, type.data_type, type.shape)));
  }
};

// dy, x [, mask] → dx. Constants: images that were encoded together, the first of these among them.
class DropoutGradientOperation final : public MaskedOperation {
 public:
  using MaskedOperation::MaskedOperation;
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
};

void check_parameters(const DropoutParameters& p, const char* kind) {
  if (!(p.keep_probability > 0 && p.keep_probability < 1)) {
    throw InvalidArgument("[" + std::string(kind) +
                          "] expected a keep probability above 0 and below 1 but got " +
                          short_text(p.keep_probability));
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
  const ImageDescriptor& d = encoding_->images;
  const Shape shape =
      mask_shape(parameters_, {source().number_of_images, d.feature_channels, d.height, d.width});
  const std::vector<bool>& kept = encoding_->kept();
  std::vector<std::uint8_t> bytes;
  for (std::int64_t n = image_; n < image_ + shape[0]; ++n) {
    for (std::int64_t y = 0; y < shape[2]; ++y) {
      for (std::int64_t x = 0; x < shape[3]; ++x) {
        for (std::int64_t c = 0; c < shape[1]; ++c) {
          const std::int64_t element = ((n * d.feature_channels + c) * d.height + y) * d.width + x;
          bytes.push_back(kept[static_cast<std::size_t>(element)] ? 1 : 0);
        }
      }
    }
  }
  return bytes;
}

bool CNNDropoutGradientState::encoded() const { return encoding_ != nullptr; }
std::int64_t CNNDropoutGradientState::step() const { return encoding_->step; }
std::int64_t CNNDropoutGradientState::images() const { return encoding_->images.number_of_images; }

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
  add_dropout_numbers(recording, parameters_, steps_);
  recording.end();
  if (!states.empty()) {
    ImageDescriptor all = seen(sources[0]->descriptor(), source_channels_);
    all.channel_format = ChannelFormat::kFloat32;
    all.number_of_images = static_cast<std::int64_t>(sources.size()) * each;
    const auto encoding =
        std::make_shared<DropoutEncoding>(device(), parameters_, operation(), all, steps_);
    for (std::size_t k = 0; k < states.size(); ++k) {
      auto& state = static_cast<CNNDropoutGradientState&>(*states[k]);
      state.update(window_);
      state.encoding_ = encoding;
      state.image_ = static_cast<std::int64_t>(k) * each;
    }
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
  add_dropout_numbers(recording, parameters_, first.step());
}

}  // namespace traingraph::mps
