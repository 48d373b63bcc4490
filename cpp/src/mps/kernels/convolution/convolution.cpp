// CNNConvolution, CNNFullyConnected and their gradients as ops: convolution or matrix product,
// biases, neuron, and the order of sub-pixels.
#include <traingraph/mps/convolution.h>

#include <traingraph/errors.h>

#include "ir/extents.h"
#include "mps/kernels/convolution/convolution_weights.h"
#include "mps/kernels/forms.h"
#include "mps/recording/distances.h"
#include "mps/recording/image_parts.h"
#include "mps/recording/owner_of.h"

namespace traingraph::mps {
namespace {

using ir::ValueId;

// How a convolution of these sizes is written, whatever reads or differentiates it.
struct ConvolutionForm {
  KernelWindow window;
  std::int64_t groups = 1;
  bool full = false;  // the kernel covers the image: a matrix product
  NeuronDescriptor neuron;

  // x (N, C, H, W), weights (O, C / groups, kh, kw), biases (O) or none → y (N, O, P, Q)
  ValueId emit(Emission& e, ValueId x, ValueId weights, ValueId biases, std::int64_t rows,
               std::int64_t columns) const {
    const ValueId y = before_neuron(e, x, weights, biases, rows, columns);
    return is_none(neuron) ? y : mps::neuron(e, neuron, y);
  }

  ValueId before_neuron(Emission& e, ValueId x, ValueId weights, ValueId biases, std::int64_t rows,
                        std::int64_t columns) const {
    const Shape shape = e.graph.type(weights).shape;
    const auto biased = [&](ValueId y, const Shape& per_channel) {
      if (biases == ir::kNone) return y;
      return ops::binary(e.graph, ir::Scalar::add, y, ops::reshape(e.graph, biases, per_channel));
    };
    if (full && groups == 1) {
      const Shape source = e.graph.type(x).shape;
      const ValueId row = ops::reshape(e.graph, x, {source[0], source[1] * source[2] * source[3]});
      const ValueId matrix =
          ops::reshape(e.graph, weights, {shape[0], shape[1] * shape[2] * shape[3]});
      const ValueId y = biased(ops::matmul(e.graph, row, matrix, false, true), {1, shape[0]});
      return ops::reshape(e.graph, y, {source[0], shape[0], 1, 1});
    }
    KernelWindow w = window;
    if (full) w.offset = {w.kernel_width / 2, w.kernel_height / 2, 0};
    const PlacedWindow placed = place_window(e, x, w, rows, columns);
    ir::ConvolutionAttributes attributes;
    attributes.window = placed.window;
    attributes.groups = groups;
    return biased(ops::apply1(e.graph, ir::Op::convolution, attributes, {placed.x, weights}),
                  {1, shape[0], 1, 1});
  }
};

ConvolutionForm form_of(const CNNConvolutionDescriptor& d, const KernelWindow& window, bool full) {
  return {window, d.all_groups(), full, d.fused_neuron_descriptor};
}

// y (N, r r C, P, Q) → (N, C, r P, r Q), without what is beyond these rows and columns.
ValueId as_sub_pixels(Emission& e, ValueId y, std::int64_t r, std::int64_t rows,
                      std::int64_t columns) {
  const Shape s = e.graph.type(y).shape;
  const std::int64_t channels = s[1] / (r * r);
  y = ops::reshape(e.graph, y, {s[0], r, r, channels, s[2], s[3]});
  y = ops::apply1(e.graph, ir::Op::transpose, ir::TransposeAttributes{{0, 3, 4, 1, 5, 2}}, {y});
  y = ops::reshape(e.graph, y, {s[0], channels, s[2] * r, s[3] * r});
  return read_region(e.graph, y, {{}, columns, rows});
}

// The input that a kernel may do without, in the type of its images.
ValueId optional(Emission& e, std::size_t input, DataType type) {
  const ValueId value = e.inputs[input];
  return value == ir::kNone ? value : ops::cast(e.graph, value, type);
}

class ConvolutionOperation final : public Operation {
 public:
  ConvolutionOperation(const std::string& subject_in, ConvolutionForm form, std::int64_t sub_pixels)
      : Operation(subject_in), form_(std::move(form)), sub_pixels_(sub_pixels) {}
  // x, weights, biases → y
  void emit(Emission& e) const override {
    const std::int64_t rows = e.results[0].shape[2], columns = e.results[0].shape[3];
    const std::int64_t r = sub_pixels_;
    const DataType type = e.type(0).data_type;
    const ValueId y = form_.emit(e, e.inputs[0], ops::cast(e.graph, e.inputs[1], type),
                                 optional(e, 2, type), (rows + r - 1) / r, (columns + r - 1) / r);
    e.set(0, r == 1 ? y : as_sub_pixels(e, y, r, rows, columns));
  }

 private:
  ConvolutionForm form_;
  std::int64_t sub_pixels_;
};

class ConvolutionGradientOperation final : public Operation {
 public:
  ConvolutionGradientOperation(const std::string& subject_in, ConvolutionForm data,
                               ConvolutionForm weights, CNNConvolutionGradientOption option)
      : Operation(subject_in),
        data_(std::move(data)),
        weights_(std::move(weights)),
        option_(static_cast<int>(option)) {}

  // dy, x, weights, biases → [dweights, dbiases,] dx
  void emit(Emission& e) const override {
    const ValueId dy = e.inputs[0], x = e.inputs[1];
    const Shape y = e.graph.type(dy).shape;
    const DataType type = e.type(0).data_type;
    const ValueId weights = ops::cast(e.graph, e.inputs[2], type);
    const ValueId biases = optional(e, 3, type);
    if ((option_ & static_cast<int>(CNNConvolutionGradientOption::kWeightsAndBias)) != 0) {
      const ValueId before = weights_.before_neuron(e, x, weights, biases, y[2], y[3]);
      const ValueId g = is_none(weights_.neuron)
                            ? dy
                            : e.gradients(neuron(e, weights_.neuron, before), dy, {before})[0];
      const ValueId by_weights = e.gradients(before, g, {weights})[0];
      // Whether there are biases or not.
      const ValueId by_biases =
          biases == ir::kNone ? channel_sum(e, g) : e.gradients(before, g, {biases})[0];
      e.set(0, ops::cast(e.graph, by_weights, e.results[0].data_type));
      e.set(1, ops::cast(e.graph, by_biases, e.results[1].data_type));
    }
    if ((option_ & static_cast<int>(CNNConvolutionGradientOption::kData)) != 0) {
      const ValueId result = data_.emit(e, x, weights, biases, y[2], y[3]);
      e.set(e.results.size() - 1, e.gradients(result, dy, {x})[0]);
    }
  }

 private:
  ConvolutionForm data_;     // by the kernel offset
  ConvolutionForm weights_;  // by the secondary offset
  int option_;
};

}  // namespace

void CNNConvolutionGradientState::visit_owned(OwnershipVisitor& visitor) const {
  visitor(convolution_);
}

CNNConvolutionGradientState::CNNConvolutionGradientState(const CNNConvolution& convolution,
                                                         ImageDescriptor source,
                                                         const CommandBuffer* temporary_on)
    : CNNConvolutionGradientState(convolution.device(), convolution.descriptor(),
                                  convolution.data_type(), convolution.window(), source,
                                  temporary_on) {
  convolution_ = owner_of<const CNNConvolution>(convolution, convolution.description());
}

CNNConvolutionGradientState::CNNConvolutionGradientState(
    const Device& device, const CNNConvolutionDescriptor& descriptor, DataType data_type,
    const KernelWindow& window, ImageDescriptor source, const CommandBuffer* temporary_on)
    : GradientState(window, source, temporary_on),
      weights_(buffer_over(weights_storage(device, descriptor, data_type), temporary_on)),
      biases_(buffer_over(biases_storage(device, descriptor, data_type), temporary_on)) {}

// --- forward -------------------------------------------------------------------------------------

OperationPtr CNNConvolution::make_operation() const {
  return std::make_shared<ConvolutionOperation>(description(),
                                                form_of(weights_.descriptor, window_, false),
                                                weights_.descriptor.sub_pixel_scale_factor);
}

ImageDescriptor CNNConvolution::destination_image_descriptor(const ImageDescriptor& source) {
  ImageDescriptor result = CNNKernel::destination_image_descriptor(source);
  result.height = ir::product(result.height, weights_.descriptor.sub_pixel_scale_factor);
  result.width = ir::product(result.width, weights_.descriptor.sub_pixel_scale_factor);
  return result;
}

StatePtr CNNConvolution::make_state(const ImageDescriptor& source, const CommandBuffer* on) const {
  return std::make_shared<CNNConvolutionGradientState>(*this, source, on);
}

CNNFullyConnected::CNNFullyConnected(const Device& device, CNNConvolutionDataSourcePtr weights)
    : CNNConvolution(device, std::move(weights), "MPSCNNFullyConnected") {
  set_padding_method(PaddingMethod::kSizeValidOnly);
}

void CNNFullyConnected::check_source(const ImageDescriptor& source) const {
  CNNConvolution::check_source(source);
  const CNNConvolutionDescriptor& d = weights_.descriptor;
  if (source.height == d.kernel_height && source.width == d.kernel_width) return;
  refuse_shape("expected source images " + std::to_string(d.kernel_height) + "x" +
               std::to_string(d.kernel_width) + ", as large as the kernel, but got " +
               to_string(source));
}

OperationPtr CNNFullyConnected::make_operation() const {
  return std::make_shared<ConvolutionOperation>(description(),
                                                form_of(weights_.descriptor, window_, true),
                                                weights_.descriptor.sub_pixel_scale_factor);
}

// --- gradient ------------------------------------------------------------------------------------

// Offsets of one axis: of data in the gradient with zeros between its pixels, and of the weights'
// gradient in the source.
void CNNConvolutionGradient::configure(const GradientState& state) {
  const KernelWindow& forward = state.window();
  const std::int64_t width = (forward.kernel_width - 1) * forward.dilation_x + 1;
  const std::int64_t height = (forward.kernel_height - 1) * forward.dilation_y + 1;
  set_primary_offset({0, 0, primary_offset_.z});
  set_kernel_offset_x(along(width % 2 == 0 ? 1 : 0, -1, forward.offset.x));
  set_kernel_offset_y(along(height % 2 == 0 ? 1 : 0, -1, forward.offset.y));
  set_secondary_offset({along(forward.offset.x, -1, width / 2),
                        along(forward.offset.y, -1, height / 2), forward.offset.z});
}

OperationPtr CNNConvolutionGradient::make_operation() const {
  const CNNConvolutionDescriptor& d = weights_.descriptor;
  const std::int64_t width = (d.kernel_width - 1) * d.dilation_rate_x + 1;
  const std::int64_t height = (d.kernel_height - 1) * d.dilation_rate_y + 1;
  ConvolutionForm data = form_of(d, window_, is_full());
  ConvolutionForm weights = data;
  // Back to the forward kernel's offset, from each of the two.
  const std::int64_t x = along(kernel_offset_.x, primary_offset_.x, d.stride_in_pixels_x);
  const std::int64_t y = along(kernel_offset_.y, primary_offset_.y, d.stride_in_pixels_y);
  data.window.offset = {along(width % 2 == 0 ? 1 : 0, -1, x), along(height % 2 == 0 ? 1 : 0, -1, y),
                        0};
  weights.window.offset = {along(window_.offset.x, 1, width / 2),
                           along(window_.offset.y, 1, height / 2), 0};
  return std::make_shared<ConvolutionGradientOperation>(description(), std::move(data),
                                                        std::move(weights), option_);
}

bool CNNConvolutionGradient::takes(const State& state) const {
  const auto* own = dynamic_cast<const CNNConvolutionGradientState*>(&state);
  return own != nullptr && own->convolution() != nullptr &&
         have_same_weights(own->convolution()->descriptor(), weights_.descriptor);
}

}  // namespace traingraph::mps
