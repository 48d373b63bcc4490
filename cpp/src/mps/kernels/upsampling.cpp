// Upsampling and resize kernels as ops: nearest by broadcast, bilinear by a product with one matrix
// for rows and one for columns.
#include <traingraph/mps/upsampling.h>

#include <algorithm>
#include <cmath>

#include <traingraph/errors.h>

#include "ir/extents.h"
#include "mps/kernels/differentiable.h"

namespace traingraph::mps {
namespace {

using ir::ValueId;

// The state of an upsampling kernel, which knows how corners were treated.
class UpsamplingState final : public GradientState {
 public:
  UpsamplingState(const KernelWindow& window, const ImageDescriptor& source,
                  const CommandBuffer* temporary_on, const Upsampling& made_by)
      : GradientState(window, source, temporary_on), upsampling(made_by) {}
  const Upsampling upsampling;
};

void check_parameters(const Upsampling& u, const char* kind) {
  if (u.scale_x >= 1 && u.scale_y >= 1) return;
  throw InvalidArgument("[" + std::string(kind) + "] expected scale factors of 1 or more but got " +
                        std::to_string(u.scale_x) + " and " + std::to_string(u.scale_y));
}

bool is_wide(const ImageDescriptor& image) {
  return data_type(image.channel_format) == DataType::kFloat64;
}

ValueId nearest(Emission& e, ValueId x, const Upsampling& u, const Shape& result) {
  const ir::Type type = e.graph.type(x);
  const Shape& s = type.shape;
  const ValueId apart = ops::reshape(e.graph, x, {s[0] * s[1], s[2], 1, s[3], 1});
  const ValueId wide = ops::broadcast(
      e.graph, apart, {type.data_type, {s[0] * s[1], s[2], u.scale_y, s[3], u.scale_x}, false});
  return ops::reshape(e.graph, wide, result);
}

// Rows by the first matrix, columns by the second.
ValueId bilinear(Emission& e, ValueId x, ValueId rows, ValueId columns, const Shape& result) {
  const ir::Type type = e.graph.type(x);
  const Shape s = type.shape;
  rows = ops::reshape(e.graph, ops::cast(e.graph, rows, type.data_type), {1, result[2], s[2]});
  columns = ops::cast(e.graph, columns, type.data_type);
  const ValueId planes = ops::reshape(e.graph, x, {s[0] * s[1], s[2], s[3]});
  const ValueId tall = ops::matmul(e.graph, rows, planes, false, false);
  const ValueId lines = ops::reshape(e.graph, tall, {s[0] * s[1] * result[2], s[3]});
  return ops::reshape(e.graph, ops::matmul(e.graph, lines, columns, false, true), result);
}

// The matrices are the last two inputs.
ValueId interpolated(Emission& e, ValueId x, const Shape& result) {
  const std::size_t count = e.inputs.size();
  return bilinear(e, x, e.inputs[count - 2], e.inputs[count - 1], result);
}

Form form_of(const Upsampling& u) {
  return [u](Emission& e, ValueId x, const Shape& result) {
    return u.bilinear ? interpolated(e, x, result) : nearest(e, x, u, result);
  };
}

void add_matrices(Recording& recording, InterpolationMatrices& matrices, const Device& device,
                  const ImageDescriptor& source, std::int64_t rows, std::int64_t columns,
                  PixelGrid grid) {
  const bool wide = is_wide(source);
  recording.input(matrices.get(device, source.height, rows, grid, wide));
  recording.input(matrices.get(device, source.width, columns, grid, wide));
}

void add_matrices(Recording& recording, InterpolationMatrices& matrices, const Device& device,
                  const Upsampling& u, const ImageDescriptor& source) {
  if (!u.bilinear) return;
  add_matrices(recording, matrices, device, source, ir::product(source.height, u.scale_y),
               ir::product(source.width, u.scale_x),
               u.align_corners ? PixelGrid::kCorners : PixelGrid::kFirst);
}

double place_of(std::int64_t pixel, std::int64_t size, std::int64_t count, PixelGrid grid) {
  const auto i = static_cast<double>(pixel);
  const auto factor = static_cast<double>(size) / static_cast<double>(count);
  switch (grid) {
    case PixelGrid::kCorners:
      return count == 1 ? 0 : i * static_cast<double>(size - 1) / static_cast<double>(count - 1);
    case PixelGrid::kFirst:
      return i * factor;
    default:
      return (i + 0.5) * factor - 0.5;
  }
}

}  // namespace

std::shared_ptr<Storage> InterpolationMatrices::get(const Device& device, std::int64_t size,
                                                    std::int64_t count, PixelGrid grid, bool wide) {
  StoragePtr& storage = known_[{size, {count, wide}}];
  if (storage != nullptr) return storage;
  StoragePtr made =
      make_storage(device.state(), wide ? DataType::kFloat64 : DataType::kFloat32, {count, size});
  std::vector<double> matrix(static_cast<std::size_t>(count * size), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    const double at =
        std::clamp(place_of(i, size, count, grid), 0.0, static_cast<double>(size - 1));
    const auto below = static_cast<std::int64_t>(std::floor(at));
    const std::int64_t above = std::min(below + 1, size - 1);
    const double share = at - static_cast<double>(below);
    matrix[static_cast<std::size_t>(i * size + below)] += 1 - share;
    matrix[static_cast<std::size_t>(i * size + above)] += share;
  }
  if (wide) {
    write_storage(*made, 0, matrix.data(), made->bytes());
  } else {
    const std::vector<float> narrow(matrix.begin(), matrix.end());
    write_storage(*made, 0, narrow.data(), made->bytes());
  }
  storage = std::move(made);
  return storage;
}

CNNUpsampling::CNNUpsampling(const Device& device, const Upsampling& upsampling)
    : CNNKernel(device), upsampling_(upsampling) {
  check_parameters(upsampling_, CNNUpsampling::kind());
}
const char* CNNUpsampling::kind() const {
  return upsampling_.bilinear ? "MPSCNNUpsamplingBilinear" : "MPSCNNUpsamplingNearest";
}
OperationPtr CNNUpsampling::make_operation() const {
  return forward_operation(description(), form_of(upsampling_));
}
ImageDescriptor CNNUpsampling::result_of(const ImageDescriptor& source) const {
  ImageDescriptor result = source;
  result.width = ir::product(result.width, upsampling_.scale_x);
  result.height = ir::product(result.height, upsampling_.scale_y);
  return result;
}
StatePtr CNNUpsampling::make_state(const ImageDescriptor& source, const CommandBuffer* on) const {
  return std::make_shared<UpsamplingState>(window_, source, on, upsampling_);
}
void CNNUpsampling::record(CommandBuffer& buffer, const ImageBatch& sources, const StateBatch&,
                           const ImageBatch& destinations) {
  Recording& recording = this->recording(buffer);
  recording.begin(operation());
  add_source(recording, sources);
  add_matrices(recording, matrices_, device(), upsampling_, sources[0]->descriptor());
  add_destination(recording, sources, destinations);
  recording.end();
}

CNNUpsamplingGradient::CNNUpsamplingGradient(const Device& device, const Upsampling& upsampling)
    : CNNGradientKernel(device), upsampling_(upsampling) {
  check_parameters(upsampling_, CNNUpsamplingGradient::kind());
}
const char* CNNUpsamplingGradient::kind() const {
  return upsampling_.bilinear ? "MPSCNNUpsamplingBilinearGradient"
                              : "MPSCNNUpsamplingNearestGradient";
}
void CNNUpsamplingGradient::set_align_corners(bool value) {
  if (value == upsampling_.align_corners) return;
  matrices_ = {};
  set(upsampling_.align_corners, value);
}
OperationPtr CNNUpsamplingGradient::make_operation() const {
  return gradient_operation(description(), form_of(upsampling_));
}
void CNNUpsamplingGradient::configure(const GradientState& state) {
  if (const auto* own = dynamic_cast<const UpsamplingState*>(&state)) {
    set_align_corners(own->upsampling.align_corners);
  }
}
void CNNUpsamplingGradient::check_gradient(const ImageDescriptor& gradient,
                                           const ImageDescriptor& source) const {
  ImageDescriptor expected = source;
  expected.width = ir::product(expected.width, upsampling_.scale_x);
  expected.height = ir::product(expected.height, upsampling_.scale_y);
  expected.number_of_images = gradient.number_of_images;
  expected.channel_format = gradient.channel_format;
  if (gradient == expected) return;
  refuse_shape("expected source gradients " + to_string(expected) + " but got " +
               to_string(gradient));
}
void CNNUpsamplingGradient::add_operands(Recording& recording, const StateBatch& states) {
  add_matrices(recording, matrices_, device(), upsampling_,
               static_cast<const GradientState&>(*states[0]).source());
}

// --- any size ------------------------------------------------------------------------------------

NNResizeBilinear::NNResizeBilinear(const Device& device, std::int64_t width, std::int64_t height,
                                   bool align_corners)
    : CNNKernel(device), width_(width), height_(height), align_corners_(align_corners) {
  if (width >= 1 && height >= 1) return;
  refuse("expected a size of 1 pixel or more but got " + std::to_string(height) + "x" +
         std::to_string(width));
}
OperationPtr NNResizeBilinear::make_operation() const {
  const std::int64_t rows = height_, columns = width_;
  return forward_operation(description(), [=](Emission& e, ValueId x, const Shape&) {
    const Shape& s = e.graph.type(x).shape;
    return interpolated(e, x, {s[0], s[1], rows, columns});
  });
}
ImageDescriptor NNResizeBilinear::result_of(const ImageDescriptor& source) const {
  ImageDescriptor result = source;
  result.width = width_;
  result.height = height_;
  return result;
}
void NNResizeBilinear::record(CommandBuffer& buffer, const ImageBatch& sources, const StateBatch&,
                              const ImageBatch& destinations) {
  Recording& recording = this->recording(buffer);
  recording.begin(operation());
  add_source(recording, sources);
  add_matrices(recording, matrices_, device(), sources[0]->descriptor(), height_, width_,
               align_corners_ ? PixelGrid::kCorners : PixelGrid::kCenters);
  add_destination(recording, sources, destinations);
  recording.end();
}

}  // namespace traingraph::mps
