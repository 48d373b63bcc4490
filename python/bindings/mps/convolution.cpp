// Adds methods to the described convolution kernels, converts MPSDataType, and binds data sources
// of weights that are Python objects.
#include <algorithm>

#include "convert/data.h"
#include "mps/data_source.h"

namespace traingraph::python {
namespace {

using mps::CNNConvolution;
using mps::CNNConvolutionDataSource;
using mps::CNNConvolutionDescriptor;
using mps::CNNConvolutionGradient;
using mps::CNNConvolutionGradientState;
using mps::CNNConvolutionWeightsAndBiasesState;

constexpr std::pair<long, DataType> kElementTypes[] = {{268435488, DataType::kFloat32},
                                                       {268435520, DataType::kFloat64},
                                                       {268435472, DataType::kFloat16}};

class ConvolutionSource final : public UserSource<CNNConvolutionDataSource> {
 public:
  using Gradient = std::shared_ptr<CNNConvolutionGradientState>;
  using Weights = std::shared_ptr<CNNConvolutionWeightsAndBiasesState>;
  explicit ConvolutionSource(const py::object& object)
      : UserSource(object, "MPSCNNConvolutionDataSource") {}

  DataType data_type() const override {
    const HeldGil held;
    return has("data_type") ? from_mps_data_type(answer("data_type")) : DataType::kFloat32;
  }
  CNNConvolutionDescriptor descriptor() const override {
    const HeldGil held;
    const py::object value = object().attr("descriptor")();
    if (!py::isinstance<CNNConvolutionDescriptor>(value)) {
      refuse(where("descriptor", "result", "MPSCNNConvolutionDescriptor"), value);
    }
    return py::cast<CNNConvolutionDescriptor>(value);
  }
  const void* weights() const override {
    const HeldGil held;
    const CNNConvolutionDescriptor d = descriptor();
    const std::int64_t count =
        element_count({d.output_feature_channels, d.kernel_height, d.kernel_width,
                       d.input_feature_channels / d.all_groups()});
    return elements_of(object().attr("weights")(), data_type(), count, method("weights").c_str(),
                       "weights", arrays_);
  }
  const void* bias_terms() const override {
    const HeldGil held;
    return elements("bias_terms", data_type(), descriptor().output_feature_channels);
  }
  Weights update(mps::CommandBuffer& buffer, const Gradient& gradient,
                 const Weights& source) override {
    return new_state<Weights>("update", "MPSCNNConvolutionWeightsAndBiasesState | None",
                              buffer.shared_from_this(), gradient, source);
  }
  bool update(const Gradient& gradient, const Weights& source) override {
    return says_yes("update_with_gradient_state", gradient, source);
  }
  mps::CNNConvolutionDataSourcePtr copy(const mps::Device& device) override {
    return copied(device, to_convolution_source);
  }
};

}  // namespace

mps::CNNConvolutionDataSourcePtr to_convolution_source(const py::object& value) {
  return to_source<mps::ConvolutionOfArrays>(
      value, [](const py::object& object) -> mps::CNNConvolutionDataSourcePtr {
        return std::make_shared<ConvolutionSource>(object);
      });
}

py::object from_convolution_source(const mps::CNNConvolutionDataSourcePtr& source) {
  return from_source<ConvolutionSource, mps::ConvolutionOfArrays>(source);
}

DataType from_mps_data_type(py::handle value) {
  const long given = enum_value("MPSDataType", value);
  for (const auto& [raw, type] : kElementTypes) {
    if (raw == given) return type;
  }
  return DataType::kInvalid;
}

py::object to_mps_data_type(DataType type) {
  const auto* const known =
      std::ranges::find(kElementTypes, type, &std::pair<long, DataType>::second);
  const bool is_known = known != std::end(kElementTypes);
  return enum_member("MPSDataType", (is_known ? known : kElementTypes)->first);
}

const void* elements_of(py::handle value, DataType type, std::int64_t count, const char* subject,
                        const char* what, std::vector<py::object>& keeper) {
  const TensorData data = readable_data(value, type, {subject, what, {}});
  const std::size_t given = data.length / element_bytes(type);
  if (given != static_cast<std::size_t>(count)) {
    throw ShapeError("[" + std::string(subject) + "] expected " + std::to_string(count) +
                     " elements but got " + std::to_string(given));
  }
  if (data.owner != nullptr) keeper.push_back(capsule_of(data.owner));
  return data.bytes;
}

}  // namespace traingraph::python
