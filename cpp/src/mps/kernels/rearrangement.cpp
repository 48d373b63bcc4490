// NNReshape, NNPad, NNSlice, NNConcatenation and their gradients as ops that reshape, slice and
// concatenate.
#include <traingraph/mps/rearrangement.h>

#include <algorithm>
#include <limits>

#include <traingraph/errors.h>

#include "ir/extents.h"
#include "layers/margins.h"
#include "mps/kernels/differentiable.h"
#include "mps/recording/image_parts.h"

namespace traingraph::mps {
namespace {

using ir::ValueId;

std::int64_t elements(const ImageDescriptor& d) {
  return element_count({d.width, d.height, d.feature_channels});
}

ValueId slice(Emission& e, ValueId x, int axis, std::int64_t start, std::int64_t extent) {
  if (start == 0 && extent == e.graph.type(x).shape[static_cast<std::size_t>(axis)]) return x;
  return ops::apply1(e.graph, ir::Op::slice, ir::SliceAttributes{axis, start, extent}, {x});
}

ValueId joined(Emission& e, int axis, std::vector<ValueId> parts) {
  if (parts.size() == 1) return parts[0];
  return ops::apply1(e.graph, ir::Op::concatenate, ir::AxisAttributes{axis}, std::move(parts));
}

ValueId reshaped(Emission& e, ValueId x, const Shape& result) {
  return ops::reshape(e.graph, x, result);
}

Margin margin_of(EdgeMode mode) {
  if (mode == EdgeMode::kClamp) return Margin::clamped;
  if (mode == EdgeMode::kMirror) return Margin::mirrored;
  return mode == EdgeMode::kMirrorWithEdge ? Margin::symmetric : Margin::constant;
}

// One axis of a padded image, to the extent of the result.
ValueId padded(Emission& e, ValueId x, int axis, EdgeMode mode, float fill_value,
               std::int64_t before, std::int64_t result) {
  const std::int64_t own = e.graph.type(x).shape[static_cast<std::size_t>(axis)];
  const std::int64_t after = before < 0 ? 0 : result - before - own;
  if (before < 0 || after < 0) e.fail("expected padding sizes of 0 or more");
  const std::int64_t most = most_mirrored(margin_of(mode), own), size = std::max(before, after);
  if (size > most) {
    e.fail("expected padding of at most " + std::to_string(most) + " elements to mirror but got " +
           std::to_string(size));
  }
  const double number = mode == EdgeMode::kZero ? 0 : static_cast<double>(fill_value);
  return with_margins(e.graph, x, axis, before, after, margin_of(mode), number);
}

struct Padding {
  Offset before;
  EdgeMode mode = EdgeMode::kZero;
  float fill_value = 0;
  std::vector<float> fill_values;
};

ValueId pad_spatially(Emission& e, const Padding& p, float fill, ValueId x, const Shape& result) {
  const std::int64_t before[2] = {p.before.y, p.before.x};
  for (int axis = 2; axis < 4; ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    x = padded(e, x, axis, p.mode, fill, before[axis - 2], result[at]);
  }
  return x;
}

// The size after follows from that of the result.
ValueId pad(Emission& e, const Padding& p, ValueId x, const Shape& result) {
  const std::int64_t channels = e.graph.type(x).shape[1];
  if (p.mode != EdgeMode::kConstant || p.fill_values.empty()) {
    x = padded(e, x, 1, p.mode, p.fill_value, p.before.z, result[1]);
    return pad_spatially(e, p, p.fill_value, x, result);
  }
  // One value per result channel.
  ir::Type plane = e.graph.type(x);
  plane.shape[1] = 1;
  std::vector<ValueId> parts;
  for (std::int64_t c = 0; c < result[1]; ++c) {
    const float fill = p.fill_values[static_cast<std::size_t>(c)];
    const std::int64_t own = c - p.before.z;
    const ValueId channel = own >= 0 && own < channels
                                ? slice(e, x, 1, own, 1)
                                : ops::filled(e.graph, plane, static_cast<double>(fill));
    parts.push_back(pad_spatially(e, p, fill, channel, result));
  }
  return joined(e, 1, std::move(parts));
}

Form form_of(Padding padding) {
  return [padding = std::move(padding)](Emission& e, ValueId x, const Shape& result) {
    return pad(e, padding, x, result);
  };
}

Offset negated(const Offset& o) {
  // The least number has no negative of its own.
  const auto of = [](std::int64_t n) {
    return -std::max(n, -std::numeric_limits<std::int64_t>::max());
  };
  return {of(o.x), of(o.y), of(o.z)};
}

// Apple's images have four channels in a texel.
std::int64_t rounded_up(std::int64_t channels) { return ir::sum(channels, 3) / 4 * 4; }

void check_padding(const Offset& size, const std::string& who) {
  if (size.x >= 0 && size.y >= 0 && size.z >= 0) return;
  throw InvalidArgument("[" + who + "] expected padding sizes of 0 or more but got (" +
                        std::to_string(size.x) + ", " + std::to_string(size.y) + ", " +
                        std::to_string(size.z) + ")");
}

// x, … → y
class ConcatenationOperation final : public Operation {
 public:
  ConcatenationOperation(const std::string& subject_in, bool packs)
      : Operation(subject_in), packs_(packs) {}
  void emit(Emission& e) const override {
    std::vector<ValueId> parts;
    for (const ValueId source : e.inputs) {
      parts.push_back(source);
      ir::Type gap = e.graph.type(source);
      gap.shape[1] = packs_ ? 0 : rounded_up(gap.shape[1]) - gap.shape[1];
      if (gap.shape[1] != 0) parts.push_back(ops::filled(e.graph, gap, 0));
    }
    e.set(0, joined(e, 1, std::move(parts)));
  }

 private:
  bool packs_;
};

}  // namespace

// --- reshape -------------------------------------------------------------------------------------

void NNReshape::set_reshaped(std::int64_t width, std::int64_t height,
                             std::int64_t feature_channels) {
  if (width < 1 || height < 1 || feature_channels < 1) {
    refuse("expected a width, height and channels of 1 or more but got " + std::to_string(width) +
           ", " + std::to_string(height) + " and " + std::to_string(feature_channels));
  }
  width_ = width;
  height_ = height;
  channels_ = feature_channels;
}
OperationPtr NNReshape::make_operation() const {
  return forward_operation(description(), reshaped);
}
ImageDescriptor NNReshape::result_of(const ImageDescriptor& source) const {
  if (width_ == 0) return source;
  ImageDescriptor result = source;
  result.width = width_;
  result.height = height_;
  result.feature_channels = channels_;
  if (elements(result) == elements(source)) return result;
  refuse_shape("expected as many elements as source images " + to_string(source) +
               " have but got " + to_string(result));
}
void NNReshape::check_destinations(const ImageBatch& sources,
                                   const ImageBatch& destinations) const {
  refuse_parts();
  check_batch(destinations, "destination images");
  const ImageDescriptor& source = sources[0]->descriptor();
  const ImageDescriptor& result = destinations[0]->descriptor();
  if (elements(source) == elements(result) && destinations.size() <= sources.size()) return;
  refuse_shape("expected destination images of " + std::to_string(elements(source)) +
               " elements, as source images " + to_string(source) + " have, but got " +
               destinations[0]->description());
}

OperationPtr NNReshapeGradient::make_operation() const {
  return gradient_operation(description(), reshaped);
}
void NNReshapeGradient::check_gradient(const ImageDescriptor& gradient,
                                       const ImageDescriptor& source) const {
  if (elements(gradient) == elements(source)) return;
  refuse_shape("expected source gradients of " + std::to_string(elements(source)) +
               " elements but got " + to_string(gradient));
}

// --- padding -------------------------------------------------------------------------------------

NNPad::NNPad(const Device& device, const Offset& before, const Offset& after,
             std::vector<float> fill_values)
    : CNNKernel(device), after_(after), fill_values_(std::move(fill_values)) {
  check_padding(before, kind());
  check_padding(after, kind());
  window_.offset = negated(before);
  if (!fill_values_.empty()) window_.edge_mode = EdgeMode::kConstant;
}
Offset NNPad::padding_size_before() const { return negated(window_.offset); }
void NNPad::set_padding_size_before(const Offset& value) { set_offset(negated(value)); }
void NNPad::set_offset(const Offset& value) {
  check_padding(negated(value), description());
  CNNKernel::set_offset(value);
}
void NNPad::set_padding_size_after(const Offset& value) {
  check_padding(value, description());
  set(after_, value);
}
void NNPad::check_source(const ImageDescriptor& source) const {
  const ImageDescriptor result = result_of(source);
  if (fill_values_.empty() ||
      static_cast<std::int64_t>(fill_values_.size()) == result.feature_channels) {
    return;
  }
  refuse_shape("expected one fill value per result channel, " +
               std::to_string(result.feature_channels) + ", but got " +
               std::to_string(fill_values_.size()));
}
ImageDescriptor NNPad::result_of(const ImageDescriptor& source) const {
  ImageDescriptor result = source;
  const Offset before = padding_size_before();
  result.width = ir::sum(result.width, ir::sum(before.x, after_.x));
  result.height = ir::sum(result.height, ir::sum(before.y, after_.y));
  result.feature_channels = ir::sum(result.feature_channels, ir::sum(before.z, after_.z));
  return result;
}
OperationPtr NNPad::make_operation() const {
  return forward_operation(description(), form_of({negated(window_.offset), window_.edge_mode,
                                                   fill_value_, fill_values_}));
}

OperationPtr NNPadGradient::make_operation() const {
  return gradient_operation(description(), form_of({primary_offset_, window_.edge_mode, 0, {}}));
}
void NNPadGradient::configure(const GradientState& state) {
  set_primary_offset(negated(state.window().offset));
  set_secondary_edge_mode(state.window().edge_mode);
}
void NNPadGradient::check_gradient(const ImageDescriptor& gradient,
                                   const ImageDescriptor& source) const {
  if (gradient.width >= source.width && gradient.height >= source.height &&
      gradient.feature_channels >= source.feature_channels) {
    return;
  }
  refuse_shape("expected source gradients as large as the source images " + to_string(source) +
               " but got " + to_string(gradient));
}

// --- slice and concatenation ---------------------------------------------------------------------

void NNSlice::set_source_feature_channel_offset(std::int64_t value) {
  if (value < 0) refuse("expected a channel offset of 0 or more but got " + std::to_string(value));
  set(first_, value);
}
void NNSlice::set_source_feature_channel_max_count(std::int64_t value) {
  if (value < 1) refuse("expected 1 channel or more but got " + std::to_string(value));
  set(count_, value);
}
std::int64_t NNSlice::result_channels(const ImageDescriptor& source) const {
  return std::min(count_, source.feature_channels - first_);
}
void NNSlice::check_source(const ImageDescriptor& source) const {
  if (first_ < source.feature_channels) return;
  refuse_shape("expected source images of more than " + std::to_string(first_) +
               " channels but got " + to_string(source));
}
OperationPtr NNSlice::make_operation() const {
  const std::int64_t first = first_;
  return forward_operation(description(), [first](Emission& e, ValueId x, const Shape& result) {
    return slice(e, x, 1, first, result[1]);
  });
}

OperationPtr NNConcatenation::make_operation() const {
  return std::make_shared<ConcatenationOperation>(description(), packs_);
}

std::int64_t NNConcatenation::channels_for(std::int64_t source) const {
  return packs_ ? source : rounded_up(source);
}

ImageDescriptor NNConcatenation::destination_image_descriptor(
    const std::vector<ImageBatch>& sources) const {
  if (sources.empty()) refuse("expected one or more sources but got none");
  ImageDescriptor result;
  for (const ImageBatch& source : sources) {
    check_batch(source, "source images");
    ImageDescriptor one = source[0]->descriptor();
    one.number_of_images *= static_cast<std::int64_t>(source.size());
    if (&source == &sources[0]) {
      result = unclamped(one);
      result.feature_channels = channels_for(one.feature_channels);
      continue;
    }
    ImageDescriptor expected = result;
    expected.feature_channels = one.feature_channels;
    expected.channel_format = one.channel_format;
    if (!(one == expected)) {
      refuse_shape("expected sources of one size, " + to_string(expected) + ", but got " +
                   to_string(one));
    }
    result.feature_channels = ir::sum(result.feature_channels, channels_for(one.feature_channels));
  }
  return result;
}

ImageBatch NNConcatenation::encode_batch(CommandBuffer& buffer,
                                         const std::vector<ImageBatch>& sources) {
  recording(buffer);
  ImageBatch images = make_images(buffer, destination_image_descriptor(sources), *this, sources[0]);
  encode_batch(buffer, sources, images);
  return images;
}

void NNConcatenation::encode_batch(CommandBuffer& buffer, const std::vector<ImageBatch>& sources,
                                   const ImageBatch& destinations) {
  Recording& recording = this->recording(buffer);
  ImageDescriptor expected = destination_image_descriptor(sources);
  check_batch(destinations, "destination images");
  ImageDescriptor got = destinations[0]->descriptor();
  got.number_of_images *= static_cast<std::int64_t>(destinations.size());
  expected.channel_format = got.channel_format;
  if (!(got == expected)) {
    refuse_shape("expected destination images " + to_string(expected) + " but got " +
                 to_string(got));
  }
  recording.begin(operation());
  for (const ImageBatch& source : sources) recording.input(source);
  recording.result(destinations);
  recording.end();
  for (const ImageBatch& source : sources) read(source);
}

}  // namespace traingraph::mps
