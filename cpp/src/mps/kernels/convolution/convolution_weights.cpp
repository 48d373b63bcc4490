// Weights of convolution kernels: checks of descriptors, loading with batch normalization folded
// in, reload and export as encoded copies, and the base classes of kernels with weights.
#include "mps/kernels/convolution/convolution_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <traingraph/errors.h>

#include "ir/extents.h"
#include "mps/kernels/forms.h"
#include "mps/kernels/loaded_source.h"
#include "ops/emit.h"

namespace traingraph::mps {
namespace {

// Each input as a result.
class CopyOperation final : public Operation {
 public:
  using Operation::Operation;
  bool aligns() const override { return true; }
  void emit(Emission& e) const override {
    for (std::size_t k = 0; k < e.results.size(); ++k) {
      e.set(k, ops::cast(e.graph, e.inputs[k], e.results[k].data_type));
    }
  }
};

// Weights (O, …) and biases (O) of the convolution and the normalization behind it, in place.
template <class T>
void fold(const InferenceNormalization& n, std::vector<std::byte>& weights,
          std::vector<std::byte>& biases) {
  auto* const w = reinterpret_cast<T*>(weights.data());
  auto* const b = reinterpret_cast<T*>(biases.data());
  const std::size_t each = weights.size() / biases.size();
  for (std::size_t o = 0; o < n.mean.size(); ++o) {
    const double factor =
        static_cast<double>(n.gamma[o]) /
        std::sqrt(static_cast<double>(n.variance[o]) + static_cast<double>(n.epsilon));
    for (std::size_t k = 0; k < each; ++k) {
      w[o * each + k] = static_cast<T>(static_cast<double>(w[o * each + k]) * factor);
    }
    b[o] = static_cast<T>((static_cast<double>(b[o]) - static_cast<double>(n.mean[o])) * factor +
                          static_cast<double>(n.beta[o]));
  }
}

}  // namespace

Shape weights_shape(const CNNConvolutionDescriptor& d) {
  return {d.output_feature_channels, d.input_feature_channels / d.all_groups(), d.kernel_height,
          d.kernel_width};
}

Shape weights_in_order(const CNNConvolutionDescriptor& d) {
  return {d.output_feature_channels, d.kernel_height, d.kernel_width,
          d.input_feature_channels / d.all_groups()};
}

bool have_same_weights(const CNNConvolutionDescriptor& a, const CNNConvolutionDescriptor& b) {
  return weights_shape(a) == weights_shape(b);
}

StoragePtr weights_storage(const Device& device, const CNNConvolutionDescriptor& d, DataType type) {
  // Apple's order (O, kh, kw, I) is a layout of the ops' (O, I, kh, kw), or the same bytes.
  Shape shape = weights_shape(d);
  const bool is_plain = shape[1] == 1 || shape[2] * shape[3] == 1;
  return make_storage(device.state(), type, std::move(shape),
                      is_plain ? ir::Layout{} : ir::channels_last(4));
}

StoragePtr biases_storage(const Device& device, const CNNConvolutionDescriptor& d, DataType type) {
  return make_storage(device.state(), type, {d.output_feature_channels});
}

void check(const CNNConvolutionDescriptor& d, const std::string& who) {
  const auto [least, most] =
      std::minmax({d.kernel_width, d.kernel_height, d.input_feature_channels,
                   d.output_feature_channels, d.stride_in_pixels_x, d.stride_in_pixels_y, d.groups,
                   d.dilation_rate_x, d.dilation_rate_y, d.sub_pixel_scale_factor});
  if (least < 1 || most > ir::kMostOfWindow) {
    throw InvalidArgument(
        "[" + who +
        "] expected kernel sizes, channels, strides, groups, dilations and a sub-pixel scale of " +
        ir::bound_of_window(least < 1) + " but got " + std::to_string(d.kernel_height) + "x" +
        std::to_string(d.kernel_width) + ", " + std::to_string(d.input_feature_channels) + " → " +
        std::to_string(d.output_feature_channels) + " channels, stride " +
        std::to_string(d.stride_in_pixels_y) + "x" + std::to_string(d.stride_in_pixels_x));
  }
  if (d.depth_wise && d.groups != 1) {
    throw InvalidArgument("[" + who + "] expected 1 group of a depthwise convolution but got " +
                          std::to_string(d.groups));
  }
  const std::int64_t groups = d.all_groups();
  if (d.input_feature_channels % groups != 0 || d.output_feature_channels % groups != 0) {
    throw InvalidArgument("[" + who + "] expected channels divisible by " + std::to_string(groups) +
                          " groups but got " + std::to_string(d.input_feature_channels) + " → " +
                          std::to_string(d.output_feature_channels));
  }
  // By division, because the square of a number from an archive may be too large.
  const std::int64_t scale = d.sub_pixel_scale_factor;
  if (d.output_feature_channels % scale != 0 || d.output_feature_channels / scale % scale != 0) {
    throw InvalidArgument("[" + who +
                          "] expected output channels divisible by the square of a "
                          "sub-pixel scale of " +
                          std::to_string(scale) + " but got " +
                          std::to_string(d.output_feature_channels));
  }
  check_neuron(d.fused_neuron_descriptor, who);
  if (d.batch_normalization == nullptr) return;
  const InferenceNormalization& n = *d.batch_normalization;
  for (const std::vector<float>* numbers : {&n.mean, &n.variance, &n.gamma, &n.beta}) {
    if (static_cast<std::int64_t>(numbers->size()) == d.output_feature_channels) continue;
    throw ShapeError("[" + who + "] expected numbers of batch normalization for " +
                     std::to_string(d.output_feature_channels) + " channels but got " +
                     std::to_string(numbers->size()));
  }
}

void check_weights_type(DataType type, const std::string& who) {
  if (type == DataType::kFloat32 || type == DataType::kFloat64) return;
  throw DataTypeError("[" + who + "] expected weights of float32 but got " + name(type));
}

void refuse_sub_pixels(const CNNConvolutionDescriptor& d, const char* kind) {
  if (d.sub_pixel_scale_factor == 1) return;
  throw Unsupported("[" + std::string(kind) +
                    "] a sub-pixel scale: forward convolutions alone have one");
}

CNNConvolutionDataSource::~CNNConvolutionDataSource() = default;

std::shared_ptr<CNNConvolutionWeightsAndBiasesState> CNNConvolutionDataSource::update(
    CommandBuffer&, const std::shared_ptr<CNNConvolutionGradientState>&,
    const std::shared_ptr<CNNConvolutionWeightsAndBiasesState>&) {
  return nullptr;
}
bool CNNConvolutionDataSource::update(const std::shared_ptr<CNNConvolutionGradientState>&,
                                      const std::shared_ptr<CNNConvolutionWeightsAndBiasesState>&) {
  return false;
}

CNNConvolutionWeightsAndBiasesState::CNNConvolutionWeightsAndBiasesState(
    const Device& device, const CNNConvolutionDescriptor& descriptor, DataType data_type)
    : State(nullptr) {
  mps::check(descriptor, kind());
  weights_ = std::make_shared<Buffer>(weights_storage(device, descriptor, data_type));
  biases_ = std::make_shared<Buffer>(biases_storage(device, descriptor, data_type));
}

CNNConvolutionWeightsAndBiasesState::CNNConvolutionWeightsAndBiasesState(
    const CommandBuffer& buffer, const CNNConvolutionDescriptor& descriptor, DataType data_type)
    : State(&buffer) {
  mps::check(descriptor, kind());
  weights_ = buffer_over(weights_storage(buffer.device(), descriptor, data_type), &buffer);
  biases_ = buffer_over(biases_storage(buffer.device(), descriptor, data_type), &buffer);
}

CNNConvolutionWeightsAndBiasesState::CNNConvolutionWeightsAndBiasesState(
    std::shared_ptr<Buffer> weights, std::shared_ptr<Buffer> biases)
    : State(nullptr), weights_(std::move(weights)), biases_(std::move(biases)) {
  if (weights_ == nullptr) {
    throw InvalidArgument("[" + std::string(kind()) +
                          "] expected a buffer of weights but got none");
  }
  if (biases_ == nullptr) return;
  check_one_device(*weights_, *biases_, kind());
  const std::size_t bytes = weights_->length(), each = biases_->length();
  if (bytes % each == 0) return;
  throw ShapeError("[" + std::string(kind()) + "] expected weights of a multiple of " +
                   std::to_string(each) + " bytes, which the biases have, but got " +
                   std::to_string(bytes));
}

ConvolutionWeights::ConvolutionWeights(const Device& device_in,
                                       CNNConvolutionDataSourcePtr source_in, const char* kind)
    : device(device_in), source(std::move(source_in)), kind_(kind) {
  if (source == nullptr) {
    throw InvalidArgument("[" + std::string(kind) + "] expected a data source but got none");
  }
  descriptor = source->descriptor();
  mps::check(descriptor, kind);
  data_type = source->data_type();
  check_weights_type(data_type, kind);
  weights = weights_storage(device, descriptor, data_type);
  biases = biases_storage(device, descriptor, data_type);
  read(*source, descriptor);
}

void ConvolutionWeights::load() { load(source); }

void ConvolutionWeights::load(CNNConvolutionDataSourcePtr other) {
  const std::string begin = "[" + std::string(kind_) + "] expected a data source";
  if (other == nullptr) throw InvalidArgument(begin + " but got none");
  const CNNConvolutionDescriptor theirs = other->descriptor();
  mps::check(theirs, kind_);
  const DataType type = other->data_type();
  const auto text = [](DataType of, const CNNConvolutionDescriptor& sizes) {
    return std::string(name(of)) + " weights " + to_string(weights_in_order(sizes));
  };
  if (type != data_type || !have_same_weights(theirs, descriptor)) {
    throw ShapeError(begin + " of " + text(data_type, descriptor) + " but got one of " +
                     text(type, theirs));
  }
  read(*other, theirs);
  source = std::move(other);
  descriptor.batch_normalization = theirs.batch_normalization;
}

void ConvolutionWeights::read(CNNConvolutionDataSource& from,
                              const CNNConvolutionDescriptor& theirs) {
  while_loaded(from, kind_, [&] {
    const SourceNumbers w = from.weights(), b = from.bias_terms();
    check_numbers(w, weights_in_order(theirs), data_type, kind_, "weights");
    const bool is_biased = b.data != nullptr;
    if (is_biased) check_numbers(b, biases->shape, data_type, kind_, "bias terms");
    std::vector<std::byte> own_weights, own_biases(biases->bytes());
    if (is_biased) std::memcpy(own_biases.data(), b.data, own_biases.size());
    if (const InferenceNormalization* const n = theirs.batch_normalization.get()) {
      const auto* const bytes = static_cast<const std::byte*>(w.data);
      own_weights.assign(bytes, bytes + weights->bytes());
      (data_type == DataType::kFloat64 ? fold<double> : fold<float>)(*n, own_weights, own_biases);
    }
    const bool folds = !own_weights.empty();
    write_storage(*weights, 0, folds ? own_weights.data() : w.data, weights->bytes());
    write_storage(*biases, 0, own_biases.data(), biases->bytes());
    biases->blank = !is_biased && !folds;
  });
}

void ConvolutionWeights::check(const CNNConvolutionWeightsAndBiasesState& state,
                               const std::string& who) const {
  auto expect = [&](const char* what, const Buffer& buffer, Storage& own) {
    if (buffer.length() < own.bytes()) {
      throw ShapeError("[" + who + "] expected " + what + " of " + std::to_string(own.bytes()) +
                       " bytes but got " + std::to_string(buffer.length()));
    }
    // A buffer of plain bytes becomes what it is used as.
    Storage& storage = *buffer.storage();
    if (storage.data_type == DataType::kUInt8 && buffer.length() == own.bytes()) {
      retype(storage, own.data_type, own.shape, own.layout);
    }
    if (storage.shape != own.shape) {
      throw ShapeError("[" + who + "] expected " + what + " " + to_string(own.shape) + " but got " +
                       to_string(storage.shape));
    }
  };
  expect("weights", *state.weights(), *weights);
  if (state.biases() != nullptr) expect("biases", *state.biases(), *biases);
}

void add_weights(Recording& recording, const ConvolutionWeights& weights) {
  recording.input(weights.weights);
  if (weights.biases->blank) {
    recording.no_input();
  } else {
    recording.input(weights.biases);
  }
}

void encode_reload(Recording& recording, const std::string& who, const ConvolutionWeights& weights,
                   const CNNConvolutionWeightsAndBiasesState& state) {
  weights.check(state, who);
  static const auto operation = std::make_shared<CopyOperation>("reload of weights and biases");
  recording.begin(operation);
  recording.input(state.weights()->storage());
  if (state.biases() != nullptr) recording.input(state.biases()->storage());
  recording.result(weights.weights);
  if (state.biases() != nullptr) recording.result(weights.biases);
  recording.end();
  if (state.biases() != nullptr) weights.biases->blank = false;
}

std::shared_ptr<CNNConvolutionWeightsAndBiasesState> encode_export(
    Recording& recording, const ConvolutionWeights& weights) {
  auto state = std::make_shared<CNNConvolutionWeightsAndBiasesState>(
      weights.device, weights.descriptor, weights.data_type);
  static const auto operation = std::make_shared<CopyOperation>("export of weights and biases");
  recording.begin(operation);
  recording.input(weights.weights);
  recording.input(weights.biases);
  recording.result(state->weights()->storage());
  recording.result(state->biases()->storage());
  recording.end();
  return state;
}

std::shared_ptr<Buffer> buffer_over(StoragePtr storage, const CommandBuffer* temporary_on) {
  storage->owner = temporary_on == nullptr ? 0 : temporary_on->number();
  return std::make_shared<Buffer>(std::move(storage));
}

KernelWindow window_of(const CNNConvolutionDescriptor& d) {
  KernelWindow w;
  w.kernel_width = d.kernel_width;
  w.kernel_height = d.kernel_height;
  w.stride_x = d.stride_in_pixels_x;
  w.stride_y = d.stride_in_pixels_y;
  w.dilation_x = d.dilation_rate_x;
  w.dilation_y = d.dilation_rate_y;
  return w;
}

// --- forward -------------------------------------------------------------------------------------

WeightForwardKernel::WeightForwardKernel(const Device& device, CNNConvolutionDataSourcePtr weights,
                                         const char* kind)
    : CNNKernel(device), weights_(device, std::move(weights), kind) {
  window_ = window_of(weights_.descriptor);
  label = weights_.source->label();
}

void WeightForwardKernel::check_source(const ImageDescriptor& source) const {
  if (source.feature_channels == weights_.descriptor.input_feature_channels) return;
  refuse_shape("expected source images of " +
               std::to_string(weights_.descriptor.input_feature_channels) + " channels but got " +
               to_string(source));
}

void WeightForwardKernel::add_operands(Recording& recording) const {
  add_weights(recording, weights_);
}

bool WeightForwardKernel::has_biases() const { return !weights_.biases->blank; }

void WeightForwardKernel::reload_weights_and_biases(CommandBuffer& buffer,
                                                    CNNConvolutionWeightsAndBiasesState& state) {
  check_state(state, buffer);
  encode_reload(recording(buffer), description(), weights_, state);
  read(state);
}

std::shared_ptr<CNNConvolutionWeightsAndBiasesState> WeightForwardKernel::export_weights_and_biases(
    CommandBuffer& buffer) {
  return encode_export(recording(buffer), weights_);
}

std::shared_ptr<CNNConvolutionWeightsAndBiasesState> WeightForwardKernel::weights_state() const {
  return std::make_shared<CNNConvolutionWeightsAndBiasesState>(
      std::make_shared<Buffer>(weights_.weights),
      weights_.biases->blank ? nullptr : std::make_shared<Buffer>(weights_.biases));
}

// --- gradients -----------------------------------------------------------------------------------

WeightGradientKernel::WeightGradientKernel(const Device& device,
                                           CNNConvolutionDataSourcePtr weights, const char* kind)
    : CNNGradientKernel(device), weights_(device, std::move(weights), kind) {
  refuse_sub_pixels(weights_.descriptor, kind);
  window_ = window_of(weights_.descriptor);
  label = weights_.source->label();
}

void WeightGradientKernel::set_gradient_option(CNNConvolutionGradientOption value) {
  const int raw = static_cast<int>(value);
  if (raw < 1 || raw > 3) {
    refuse("expected gradient option 1, 2 or 3 but got " + std::to_string(raw));
  }
  set(option_, value);
}

void WeightGradientKernel::check_gradient(const ImageDescriptor& gradient,
                                          const ImageDescriptor& source) const {
  const CNNConvolutionDescriptor& d = weights_.descriptor;
  if (gradient.feature_channels != d.output_feature_channels) {
    refuse_shape("expected source gradients of " + std::to_string(d.output_feature_channels) +
                 " channels but got " + to_string(gradient));
  }
  if (source.feature_channels != d.input_feature_channels) {
    refuse_shape("expected source images of " + std::to_string(d.input_feature_channels) +
                 " channels but got " + to_string(source));
  }
}

void WeightGradientKernel::share_weights(const WeightForwardKernel& forward) {
  const ConvolutionWeights& own = forward.weights_;
  weights_.check({std::make_shared<Buffer>(own.weights), std::make_shared<Buffer>(own.biases)},
                 description());
  weights_.weights = own.weights;
  weights_.biases = own.biases;
}

void WeightGradientKernel::add_operands(Recording& recording, const StateBatch& states) {
  add_weights(recording, weights_);
  if ((static_cast<int>(option_) & 2) == 0) return;
  const auto& state = static_cast<const CNNConvolutionGradientState&>(*states[0]);
  recording.result(state.gradient_for_weights()->storage());
  recording.result(state.gradient_for_biases()->storage());
}

void WeightGradientKernel::reload_weights_and_biases(CommandBuffer& buffer,
                                                     CNNConvolutionWeightsAndBiasesState& state) {
  check_state(state, buffer);
  encode_reload(recording(buffer), description(), weights_, state);
  read(state);
}

}  // namespace traingraph::mps
