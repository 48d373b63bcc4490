// CNNConvolutionTranspose and its gradient as ops: zeros between the pixels, then a convolution of
// stride 1. Sizes and offsets can mirror a convolution.
#include <traingraph/mps/convolution_transpose.h>

#include <traingraph/errors.h>

#include "ir/extents.h"
#include "mps/kernels/convolution/convolution_weights.h"
#include "mps/kernels/forms.h"
#include "mps/kernels/padding_policy.h"
#include "mps/recording/distances.h"
#include "mps/recording/image_parts.h"
#include "mps/recording/owner_of.h"

namespace traingraph::mps {
namespace {

using ir::ValueId;

// Of a convolution of stride 1 over the source with zeros between its pixels.
struct TransposeForm {
  KernelWindow window;
  std::int64_t stride_x = 1;
  std::int64_t stride_y = 1;
  std::int64_t groups = 1;
  NeuronDescriptor neuron;

  TransposeForm(const CNNConvolutionDescriptor& d, const Offset& offset,
                const Offset& kernel_offset)
      : stride_x(d.stride_in_pixels_x),
        stride_y(d.stride_in_pixels_y),
        groups(d.all_groups()),
        neuron(d.fused_neuron_descriptor) {
    window.kernel_width = d.kernel_width;
    window.kernel_height = d.kernel_height;
    window.dilation_x = d.dilation_rate_x;
    window.dilation_y = d.dilation_rate_y;
    window.offset = {along(kernel_offset.x, offset.x, stride_x),
                     along(kernel_offset.y, offset.y, stride_y), 0};
  }

  ValueId with_zeros_between(Emission& e, ValueId x) const {
    if (stride_x == 1 && stride_y == 1) return x;
    const ir::Type type = e.graph.type(x);
    const Shape& s = type.shape;
    x = ops::reshape(e.graph, x, {s[0] * s[1], s[2], 1, s[3], 1});
    x = with_zeros(e, x, 4, stride_x);
    x = with_zeros(e, x, 2, stride_y);
    return ops::reshape(e.graph, x, {s[0], s[1], s[2] * stride_y, s[3] * stride_x});
  }

  // x (N, C, H, W), weights (O, C / groups, kh, kw), biases (O) or none → y of this many rows and
  // columns
  ValueId emit(Emission& e, ValueId x, ValueId weights, ValueId biases, std::int64_t rows,
               std::int64_t columns) const {
    const PlacedWindow placed = place_window(e, with_zeros_between(e, x), window, rows, columns);
    ir::ConvolutionAttributes attributes;
    attributes.window = placed.window;
    attributes.groups = groups;
    ValueId y = ops::apply1(e.graph, ir::Op::convolution, attributes, {placed.x, weights});
    const std::int64_t channels = e.graph.type(weights).shape[0];
    if (biases != ir::kNone) {
      y = ops::binary(e.graph, ir::Scalar::add, y,
                      ops::reshape(e.graph, biases, {1, channels, 1, 1}));
    }
    return is_none(neuron) ? y : mps::neuron(e, neuron, y);
  }

 private:
  static ValueId with_zeros(Emission& e, ValueId x, int axis, std::int64_t stride) {
    if (stride == 1) return x;
    ir::Type zeros = e.graph.type(x);
    zeros.shape[static_cast<std::size_t>(axis)] = stride - 1;
    return ops::apply1(e.graph, ir::Op::concatenate, ir::AxisAttributes{axis},
                       {x, ops::filled(e.graph, zeros, 0)});
  }
};

// x, weights [, biases] → y
class TransposeOperation final : public Operation {
 public:
  TransposeOperation(const std::string& subject_in, TransposeForm form)
      : Operation(subject_in), form_(std::move(form)) {}
  void emit(Emission& e) const override {
    const Shape y = e.results[0].shape;
    const DataType type = e.type(0).data_type;
    const ValueId biases =
        e.inputs[2] == ir::kNone ? ir::kNone : ops::cast(e.graph, e.inputs[2], type);
    e.set(0, form_.emit(e, e.inputs[0], ops::cast(e.graph, e.inputs[1], type), biases, y[2], y[3]));
  }

 private:
  TransposeForm form_;
};

// dy, x, weights, biases → [dweights, dbiases,] dx, which is left as it is unless it is asked for
class TransposeGradientOperation final : public Operation {
 public:
  TransposeGradientOperation(const std::string& subject_in, TransposeForm form,
                             CNNConvolutionGradientOption option)
      : Operation(subject_in), form_(std::move(form)), option_(option) {}
  bool writes(std::size_t result) const override {
    return result < kSums || gives(CNNConvolutionGradientOption::kData);
  }
  void emit(Emission& e) const override {
    const ValueId x = e.inputs[1];
    const Shape dy = e.type(0).shape;
    const DataType type = e.type(0).data_type;
    const ValueId weights = ops::cast(e.graph, e.inputs[2], type);
    // Without biases their gradient is that of zeros.
    const ir::Type per_channel{type, {e.graph.type(weights).shape[0]}};
    const ValueId biases = e.inputs[3] == ir::kNone ? ops::filled(e.graph, per_channel, 0)
                                                    : ops::cast(e.graph, e.inputs[3], type);
    const ValueId y = form_.emit(e, x, weights, biases, dy[2], dy[3]);
    const std::vector<ValueId> found = e.gradients(y, e.inputs[0], {weights, biases, x});
    if (gives(CNNConvolutionGradientOption::kWeightsAndBias)) {
      e.set(0, ops::cast(e.graph, found[0], e.results[0].data_type));
      e.set(1, ops::cast(e.graph, found[1], e.results[1].data_type));
    }
    if (gives(CNNConvolutionGradientOption::kData)) e.set(e.results.size() - 1, found[2]);
  }

 private:
  static constexpr std::size_t kSums = 2;  // of weights and of biases
  bool gives(CNNConvolutionGradientOption what) const {
    return (static_cast<int>(option_) & static_cast<int>(what)) != 0;
  }

  TransposeForm form_;
  CNNConvolutionGradientOption option_;
};

// One axis of the convolution that is undone: the size of its source, and its offset. Its policy
// has the same alignment and the opposite size, full where this one is valid-only:
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnpaddingmethod
struct Mirrored {
  std::int64_t size;
  std::int64_t offset;
};
Mirrored mirrored_axis(std::int64_t source, std::int64_t extent, std::int64_t stride, int method,
                       int remainder_flag) {
  const std::int64_t touched = ir::sum(ir::product(source - 1, stride), extent);
  std::int64_t size = touched - 2 * (extent - 1);
  const int policy = method & PaddingMethod::kSizeMask;
  if (policy == PaddingMethod::kSizeSame) size = ir::product(source, stride);
  if (policy == PaddingMethod::kSizeFull) size = touched;
  return {size, extent / 2 - padding_before(touched - size, method, remainder_flag)};
}

std::int64_t kernel_offset_for(std::int64_t offset, std::int64_t extent) {
  return along(extent % 2 == 0 ? 1 : 0, -1, offset);
}

}  // namespace

void CNNConvolutionTransposeGradientState::visit_owned(OwnershipVisitor& visitor) const {
  visitor(kernel_);
}

CNNConvolutionTransposeGradientState::CNNConvolutionTransposeGradientState(
    const CNNConvolutionTranspose& kernel, ImageDescriptor source,
    const CommandBuffer* temporary_on)
    : CNNConvolutionGradientState(kernel.device(), kernel.descriptor(), kernel.data_type(),
                                  kernel.window(), source, temporary_on),
      kernel_(owner_of<const CNNConvolutionTranspose>(kernel, kernel.description())),
      kernel_offset_{kernel.kernel_offset_x(), kernel.kernel_offset_y(), 0} {}

// --- forward -------------------------------------------------------------------------------------

CNNConvolutionTranspose::CNNConvolutionTranspose(const Device& device,
                                                 CNNConvolutionDataSourcePtr weights)
    : WeightForwardKernel(device, std::move(weights), "MPSCNNConvolutionTranspose") {
  refuse_sub_pixels(weights_.descriptor, kind());
}

OperationPtr CNNConvolutionTranspose::make_operation() const {
  return std::make_shared<TransposeOperation>(
      description(), TransposeForm(weights_.descriptor, window_.offset, kernel_offset_));
}

ImageDescriptor CNNConvolutionTranspose::destination_image_descriptor(
    const ImageDescriptor& image) {
  const ImageDescriptor source = seen(image, source_channels_);
  check_source(source);
  write_everything();
  check_padding_method();
  const std::int64_t height = extent_of(window_.kernel_height, window_.dilation_y);
  const std::int64_t width = extent_of(window_.kernel_width, window_.dilation_x);
  const Mirrored y = mirrored_axis(source.height, height, window_.stride_y, padding_method(),
                                   PaddingMethod::kRemainderToBottom);
  const Mirrored x = mirrored_axis(source.width, width, window_.stride_x, padding_method(),
                                   PaddingMethod::kRemainderToRight);
  if (x.size < 1 || y.size < 1) {
    refuse_shape("expected a source whose result has pixels but got " + to_string(source));
  }
  ImageDescriptor result = unclamped(result_of(source));
  result.height = y.size;
  result.width = x.size;
  set_offset({});
  set_kernel_offset_x(kernel_offset_for(x.offset, width));
  set_kernel_offset_y(kernel_offset_for(y.offset, height));
  return result;
}

ImageDescriptor CNNConvolutionTranspose::mirror(const ImageBatch& sources,
                                                const StateBatch& states) {
  check_batch(sources, "source images");
  const auto* const first =
      states.empty() ? nullptr : dynamic_cast<const GradientState*>(states[0].get());
  if (first == nullptr) refuse("expected a state of a convolution but got none");
  const GradientState& convolution = *first;
  const ImageDescriptor source = seen(sources[0]->descriptor(), source_channels_);
  check_source(source);
  write_everything();
  const KernelWindow& forward = convolution.window();
  KernelWindow expected = window_;
  expected.offset = forward.offset;
  expected.edge_mode = forward.edge_mode;
  if (!(forward == expected)) {
    refuse("expected a state of a convolution of this kernel's size, stride and dilation but got " +
           convolution.description() + " of another");
  }
  ImageDescriptor result = unclamped(result_of(source));
  result.height = convolution.source().height;
  result.width = convolution.source().width;
  set_offset({});
  set_kernel_offset_x(
      kernel_offset_for(forward.offset.x, extent_of(window_.kernel_width, window_.dilation_x)));
  set_kernel_offset_y(
      kernel_offset_for(forward.offset.y, extent_of(window_.kernel_height, window_.dilation_y)));
  return by_own_policy(sources, states, result);
}

ImageBatch CNNConvolutionTranspose::encode_batch(CommandBuffer& buffer, const ImageBatch& sources,
                                                 const StateBatch& convolution, StateBatch* states,
                                                 bool temporary_states) {
  recording(buffer);
  ImageDescriptor result = mirror(sources, convolution);
  if (states != nullptr) {
    *states = result_state_batch(sources, temporary_states ? &buffer : nullptr);
  }
  result.number_of_images =
      sources[0]->descriptor().number_of_images * static_cast<std::int64_t>(sources.size());
  ImageBatch images = make_images(buffer, result, *this, sources);
  encode_batch(buffer, sources, states == nullptr ? StateBatch{} : *states, images);
  return images;
}

StatePtr CNNConvolutionTranspose::make_state(const ImageDescriptor& source,
                                             const CommandBuffer* on) const {
  return std::make_shared<CNNConvolutionTransposeGradientState>(*this, source, on);
}

void CNNConvolutionTranspose::record(CommandBuffer& buffer, const ImageBatch& sources,
                                     const StateBatch& states, const ImageBatch& destinations) {
  CNNKernel::record(buffer, sources, states, destinations);
  for (const StatePtr& state : states) {
    if (auto* own = dynamic_cast<CNNConvolutionTransposeGradientState*>(state.get())) {
      own->kernel_offset_ = kernel_offset_;
    }
  }
}

// --- gradient ------------------------------------------------------------------------------------

OperationPtr CNNConvolutionTransposeGradient::make_operation() const {
  return std::make_shared<TransposeGradientOperation>(
      description(), TransposeForm(weights_.descriptor, window_.offset, kernel_offset_), option_);
}

void CNNConvolutionTransposeGradient::configure(const GradientState& state) {
  const auto& own = static_cast<const CNNConvolutionTransposeGradientState&>(state);
  set_secondary_offset(own.window().offset);
  set_kernel_offset_x(own.kernel_offset().x);
  set_kernel_offset_y(own.kernel_offset().y);
}

bool CNNConvolutionTransposeGradient::takes(const State& state) const {
  const auto* own = dynamic_cast<const CNNConvolutionTransposeGradientState*>(&state);
  return own != nullptr &&
         have_same_weights(own->convolution_transpose()->descriptor(), weights_.descriptor);
}

}  // namespace traingraph::mps
