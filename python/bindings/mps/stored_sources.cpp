// Data sources over arrays: those of kernels that were made of bytes, or of arrays.
#include <pybind11/numpy.h>

#include <map>

#include "classes/python_types.h"
#include "convert/data.h"
#include "mps/data_source.h"

namespace traingraph::python {
namespace {

using mps::BatchNormalizationOfArrays;
using mps::ConvolutionOfArrays;
using mps::GroupNormalizationOfArrays;

// Of the weights of a convolution, or of a normalization of this class.
const std::map<std::string, ValueType> kKinds = {
    {"weights", {&typeid(mps::CNNConvolutionDataSourcePtr)}},
    {"MPSCNNBatchNormalization", {&typeid(mps::CNNBatchNormalizationDataSourcePtr)}},
    {"MPSCNNInstanceNormalization", {&typeid(mps::CNNInstanceNormalizationDataSourcePtr)}},
    {"MPSCNNGroupNormalization", {&typeid(mps::CNNGroupNormalizationDataSourcePtr)}}};

// A view that cannot be written, of what `owner` holds; None where there is nothing.
py::object view(const mps::SourceNumbers& numbers, std::vector<py::ssize_t> shape,
                const py::object& owner) {
  if (numbers.data == nullptr) return py::none();
  const py::dtype type(numbers.data_type == DataType::kFloat64 ? "float64" : "float32");
  py::array array(type, std::move(shape), numbers.data, owner);
  array.attr("setflags")(py::arg("write") = false);
  return array;
}

template <typename Class>
void def_source(Class& cls) {
  using Self = typename Class::type;
  cls.def("load", &Self::load).def("purge", &Self::purge);
  cls.def("label", [](const Self& self) -> py::object {
    return self.label().empty() ? py::none() : py::object(py::str(self.label()));
  });
}

void bind_weights(py::module_& module) {
  using Self = ConvolutionOfArrays;
  auto cls =
      BoundClass<Self, std::shared_ptr<Self>>(module, "_ConvolutionOfArrays", "Weights in arrays.");
  def_source(cls);
  cls.def("data_type", [](const Self& self) { return to_mps_data_type(self.data_type()); });
  cls.def("descriptor", [](const Self& self) -> py::object {
    return from_convolution_descriptor(self.descriptor());
  });
  cls.def("weights", [](const py::object& object) {
    const auto& self = py::cast<const Self&>(object);
    const mps::CNNConvolutionDescriptor d = self.descriptor();
    return view(self.weights(),
                {d.output_feature_channels, d.kernel_height, d.kernel_width,
                 d.input_feature_channels / d.all_groups()},
                object);
  });
  cls.def("bias_terms", [](const py::object& object) {
    const auto& self = py::cast<const Self&>(object);
    return view(self.bias_terms(), {self.descriptor().output_feature_channels}, object);
  });
}

template <typename Class>
void def_channels(Class& cls, const char* name, mps::SourceNumbers (Class::type::*read)() const) {
  using Self = typename Class::type;
  cls.def(name, [read](const py::object& object) {
    const auto& self = py::cast<const Self&>(object);
    return view((self.*read)(), {self.number_of_feature_channels()}, object);
  });
}

template <typename Class>
void def_normalization(Class& cls) {
  using Self = typename Class::type;
  def_source(cls);
  def_channels(cls, "gamma", &Self::gamma);
  def_channels(cls, "beta", &Self::beta);
  cls.def("epsilon", &Self::epsilon);
}

}  // namespace

py::object from_convolution_descriptor(const mps::CNNConvolutionDescriptor& descriptor) {
  const auto as = [&descriptor](auto other) {
    static_cast<mps::CNNConvolutionDescriptor&>(other) = descriptor;
    return cast_described(typeid(other), other);
  };
  if (descriptor.depth_wise) return as(mps::CNNDepthWiseConvolutionDescriptor());
  if (descriptor.sub_pixel_scale_factor != 1) return as(mps::CNNSubPixelConvolutionDescriptor());
  return as(mps::CNNConvolutionDescriptor());
}

void bind_mps_stored_sources(py::module_& module) {
  bind_weights(module);
  using Batch = BatchNormalizationOfArrays;
  auto batch = BoundClass<Batch, std::shared_ptr<Batch>>(module, "_BatchNormalizationOfArrays",
                                                         "Numbers in arrays.");
  def_normalization(batch);
  def_channels(batch, "mean", &Batch::mean);
  def_channels(batch, "variance", &Batch::variance);
  batch.def("number_of_feature_channels", &Batch::number_of_feature_channels);
  using Group = GroupNormalizationOfArrays;
  auto group = BoundClass<Group, std::shared_ptr<Group>>(module, "_GroupNormalizationOfArrays",
                                                         "Numbers in arrays.");
  def_normalization(group);
  group.def_property_readonly("number_of_feature_channels", &Group::number_of_feature_channels);
  group.def_property_readonly("number_of_groups", &Group::number_of_groups);
  // As traingraph.mps.graph_coding asks.
  def_function(module, "_coded_source", "Any", {"kind: str, source: Any"}, "",
               [](const Arguments& given) {
                 const auto kind = given.get<std::string>("kind");
                 const ValueType& type = kKinds.at(kind);
                 const std::any source = load_value(type, given["source"], {kind, "source", kind});
                 return from_coded(mps::coded(type, source));
               });
  def_function(module, "_decoded_source", "Any", {"kind: str, values: Any"}, "",
               [](const Arguments& given) {
                 const auto kind = given.get<std::string>("kind");
                 const ValueType& type = kKinds.at(kind);
                 return cast_value(type, mps::decoded(type, kind, to_coded(given["values"])), {});
               });
}

}  // namespace traingraph::python
