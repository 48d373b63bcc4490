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
      : UserSource(object, "MPSCNNConvolutionDataSource", "descriptor") {}

  DataType data_type() const override {
    const HeldGil held;
    type_ = has("data_type") ? from_mps_data_type(answer("data_type")) : DataType::kFloat32;
    return type_;
  }
  CNNConvolutionDescriptor descriptor() const override {
    const HeldGil held;
    const py::object value = object().attr("descriptor")();
    if (!py::isinstance<CNNConvolutionDescriptor>(value)) {
      refuse(where("descriptor", "result", "MPSCNNConvolutionDescriptor"), value);
    }
    return py::cast<CNNConvolutionDescriptor>(value);
  }
  mps::SourceNumbers weights() const override { return numbers("weights", type_); }
  mps::SourceNumbers bias_terms() const override { return numbers("bias_terms", type_); }
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

 private:
  mutable DataType type_ = DataType::kFloat32;  // as it was told last; guarded by the GIL
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

mps::SourceNumbers elements_of(py::handle value, DataType type, const char* subject,
                               const char* what) {
  static constexpr float kNothing = 0;  // no numbers have no address, which would mean no array
  const TensorData data = readable_data(value, type, {subject, what, {}});
  return {data.bytes == nullptr ? &kNothing : data.bytes, data.length / element_bytes(type), type,
          data.owner};
}

}  // namespace traingraph::python
