// CNNPooling and CNNPoolingGradient as pooling ops; zeros that count are concatenated around the
// image.
#include <traingraph/mps/pooling.h>

#include <algorithm>

#include <traingraph/errors.h>

#include "ir/extents.h"
#include "mps/kernels/forms.h"
#include "mps/recording/distances.h"
#include "mps/recording/image_parts.h"

namespace traingraph::mps {
namespace {

using ir::ValueId;

constexpr const char* kPoolingKinds[] = {"MPSCNNPoolingMax", "MPSCNNPoolingAverage",
                                         "MPSCNNPoolingL2Norm", "MPSCNNDilatedPoolingMax"};
constexpr const char* kPoolingGradientKinds[] = {
    "MPSCNNPoolingMaxGradient", "MPSCNNPoolingAverageGradient", "MPSCNNPoolingL2NormGradient",
    "MPSCNNDilatedPoolingMaxGradient"};

bool is_max(CNNPoolingType type) {
  return type == CNNPoolingType::kMax || type == CNNPoolingType::kDilatedMax;
}

void check_window(const KernelWindow& w, const char* kind) {
  const auto [least, most] = std::minmax(
      {w.kernel_width, w.kernel_height, w.stride_x, w.stride_y, w.dilation_x, w.dilation_y});
  if (least >= 1 && most <= ir::kMostOfWindow) return;
  throw InvalidArgument("[" + std::string(kind) + "] expected a window, strides and dilations of " +
                        ir::bound_of_window(least < 1) + " but got " +
                        std::to_string(w.kernel_height) + "x" + std::to_string(w.kernel_width) +
                        " stride " + std::to_string(w.stride_y) + "x" + std::to_string(w.stride_x) +
                        " dilation " + std::to_string(w.dilation_y) + "x" +
                        std::to_string(w.dilation_x));
}

void check_zero_pad(CNNPoolingType type, std::int64_t value, const char* kind) {
  const std::string who = "[" + std::string(kind) + "] ";
  if (type != CNNPoolingType::kAverage) {
    throw Unsupported(who + "zeros that count: an average alone counts the pixels of its window");
  }
  if (value >= 0) return;
  throw InvalidArgument(who + "expected 0 zeros or more beside the image but got " +
                        std::to_string(value));
}

// x with zeros around it in place of so much of the window's padding.
ValueId with_zeros(Emission& e, ValueId x, ir::Window& w, const std::int64_t (&most)[2]) {
  for (int axis = 0; axis < 2; ++axis) {
    ir::Type edge = e.graph.type(x);
    std::vector<ValueId> parts;
    const auto add = [&](std::int64_t& padding) {
      const std::int64_t zeros = std::min(padding, most[axis]);
      padding -= zeros;
      if (zeros == 0) return;
      edge.shape[static_cast<std::size_t>(axis) + 2] = zeros;
      parts.push_back(ops::filled(e.graph, edge, 0));
    };
    add(w.padding_before[axis]);
    parts.push_back(x);
    add(w.padding_after[axis]);
    if (parts.size() > 1) {
      x = ops::apply1(e.graph, ir::Op::concatenate, ir::AxisAttributes{axis + 2}, parts);
    }
  }
  return x;
}

ValueId pool(Emission& e, CNNPoolingType type, const KernelWindow& window, ValueId x,
             const Shape& result) {
  PlacedWindow placed = place_window(e, x, window, result[2], result[3]);
  ir::PoolingAttributes attributes;
  const bool zero = window.edge_mode == EdgeMode::kZero;
  if (is_max(type) && zero) {
    placed.x = with_zeros(e, placed.x, placed.window, {INT64_MAX, INT64_MAX});
  } else if (!zero) {
    placed.x = with_zeros(e, placed.x, placed.window, {window.zero_pad_y, window.zero_pad_x});
  }
  attributes.kind = is_max(type) ? ir::PoolingKind::max
                                 : (type == CNNPoolingType::kAverage ? ir::PoolingKind::average
                                                                     : ir::PoolingKind::l2_norm);
  attributes.window = placed.window;
  attributes.count_includes_padding = type == CNNPoolingType::kAverage && zero;
  // One form for the forward kernel and for its gradient, which reads the index.
  attributes.with_index = is_max(type);
  return ops::apply1(e.graph, ir::Op::pooling, attributes, {placed.x});
}

class PoolingOperation final : public Operation {
 public:
  PoolingOperation(const std::string& subject_in, CNNPoolingType type, const KernelWindow& window)
      : Operation(subject_in), type_(type), window_(window) {}
  void emit(Emission& e) const override {
    e.set(0, pool(e, type_, window_, e.inputs[0], e.results[0].shape));
  }

 private:
  CNNPoolingType type_;
  KernelWindow window_;
};

// dy, x → dx
class PoolingGradientOperation final : public Operation {
 public:
  PoolingGradientOperation(const std::string& subject_in, CNNPoolingType type,
                           const KernelWindow& window)
      : Operation(subject_in), type_(type), window_(window) {}
  void emit(Emission& e) const override {
    const ValueId y = pool(e, type_, window_, e.inputs[1], e.type(0).shape);
    e.set(0, e.gradients(y, e.inputs[0], {e.inputs[1]})[0]);
  }

 private:
  CNNPoolingType type_;
  KernelWindow window_;
};

}  // namespace

PlacedWindow place_window(Emission& e, ValueId x, const KernelWindow& w, std::int64_t rows,
                          std::int64_t columns) {
  PlacedWindow placed{x, {}};
  const std::int64_t kernel[2] = {w.kernel_height, w.kernel_width};
  const std::int64_t stride[2] = {w.stride_y, w.stride_x};
  const std::int64_t dilation[2] = {w.dilation_y, w.dilation_x};
  const std::int64_t offset[2] = {w.offset.y, w.offset.x};
  const std::int64_t positions[2] = {rows, columns};
  for (int axis = 0; axis < 2; ++axis) {
    const std::int64_t size = e.graph.type(x).shape[static_cast<std::size_t>(axis) + 2];
    const std::int64_t extent = (kernel[axis] - 1) * dilation[axis] + 1;
    const std::int64_t begin = along(offset[axis], -1, extent / 2);
    const std::int64_t end = along(along(begin, 1, extent), positions[axis] - 1, stride[axis]);
    const std::int64_t first = std::max<std::int64_t>(begin, 0);
    const std::int64_t last = std::min(end, size);
    if (first >= last) {
      e.fail("expected windows that reach into the source " + to_string(e.graph.type(x).shape) +
             " but got offset " + std::to_string(offset[axis]));
    }
    if (first > 0 || last < size) {
      placed.x = ops::apply1(e.graph, ir::Op::slice,
                             ir::SliceAttributes{axis + 2, first, last - first}, {placed.x});
    }
    placed.window.kernel[axis] = kernel[axis];
    placed.window.stride[axis] = stride[axis];
    placed.window.dilation[axis] = dilation[axis];
    placed.window.padding_before[axis] = first - begin;
    placed.window.padding_after[axis] = end - last;
  }
  return placed;
}

CNNPooling::CNNPooling(const Device& device, CNNPoolingType type, const KernelWindow& window)
    : CNNKernel(device), type_(type) {
  check_window(window, CNNPooling::kind());
  window_ = window;
  window_.edge_mode = is_max(type) ? EdgeMode::kClamp : EdgeMode::kZero;
}
const char* CNNPooling::kind() const { return kPoolingKinds[static_cast<int>(type_)]; }
void CNNPooling::set_zero_pad_size_x(std::int64_t value) {
  check_zero_pad(type_, value, kind());
  set(window_.zero_pad_x, value);
}
void CNNPooling::set_zero_pad_size_y(std::int64_t value) {
  check_zero_pad(type_, value, kind());
  set(window_.zero_pad_y, value);
}
// Apple's policy constrains an average to the padding area, for frameworks that count no more:
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnpaddingmethod. That area
// is the image and its zeros that count, which is what kClamp means.
ImageDescriptor CNNPooling::destination_image_descriptor(const ImageDescriptor& source) {
  const ImageDescriptor result = CNNKernel::destination_image_descriptor(source);
  const bool excludes_edges = (padding_method() & PaddingMethod::kExcludeEdges) != 0;
  if (excludes_edges && type_ == CNNPoolingType::kAverage) set_edge_mode(EdgeMode::kClamp);
  return result;
}
OperationPtr CNNPooling::make_operation() const {
  return std::make_shared<PoolingOperation>(description(), type_, window_);
}

CNNPoolingGradient::CNNPoolingGradient(const Device& device, CNNPoolingType type,
                                       const KernelWindow& window)
    : CNNGradientKernel(device), type_(type) {
  check_window(window, CNNPoolingGradient::kind());
  window_ = window;
  window_.edge_mode = is_max(type) ? EdgeMode::kClamp : EdgeMode::kZero;
}
const char* CNNPoolingGradient::kind() const {
  return kPoolingGradientKinds[static_cast<int>(type_)];
}
void CNNPoolingGradient::set_zero_pad_size_x(std::int64_t value) {
  check_zero_pad(type_, value, kind());
  set(window_.zero_pad_x, value);
}
void CNNPoolingGradient::set_zero_pad_size_y(std::int64_t value) {
  check_zero_pad(type_, value, kind());
  set(window_.zero_pad_y, value);
}
void CNNPoolingGradient::set_source_size(const Region& size) {
  check_region(size, "source size");
  source_size_ = size;
}
GradientParts CNNPoolingGradient::parts(const ImageDescriptor& gradient,
                                        const ImageDescriptor& source,
                                        const GradientState& state) const {
  Region counted = source_size_;
  counted.origin = {primary_offset_.x, primary_offset_.y, 0};
  check_region(counted, "part of the incoming gradient");
  const ImageDescriptor used = seen(gradient, counted);
  // What counts may leave out some of what the forward kernel has written.
  const ImageDescriptor written = state.written().value_or(used);
  const bool is_written = gradient.width == written.width && gradient.height == written.height;
  ImageDescriptor all = is_written ? gradient : used;
  if (used.width == counted.width) all.width = std::max(all.width, written.width);
  if (used.height == counted.height) all.height = std::max(all.height, written.height);
  GradientParts parts = CNNGradientKernel::parts(all, source, state);
  parts.gradient.first = {parts.gradient.first[0], primary_offset_.y, primary_offset_.x};
  parts.gradient.extent = {parts.gradient.extent[0], used.height, used.width};
  parts.gradient.size = {used.height, used.width};
  return parts;
}
OperationPtr CNNPoolingGradient::make_operation() const {
  return std::make_shared<PoolingGradientOperation>(description(), type_, window_);
}
void CNNPoolingGradient::check_gradient(const ImageDescriptor& gradient,
                                        const ImageDescriptor& source) const {
  if (gradient.feature_channels == source.feature_channels) return;
  refuse_shape("expected source gradients of " + std::to_string(source.feature_channels) +
               " channels but got " + to_string(gradient));
}

}  // namespace traingraph::mps
