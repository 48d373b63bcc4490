// Binds MLCTensorDescriptor, with Apple's forms for images, sequences, convolution weights and
// biases.
#include "bindings.h"
#include "classes/signature.h"
#include "convert/convert.h"

namespace traingraph::python {
namespace {

TensorDescriptor make_tensor_descriptor(const Arguments& arguments) {
  const auto type = arguments.get<DataType>("data_type");
  const auto extent = [&arguments](const char* name) { return arguments.get<std::int64_t>(name); };
  if (arguments.given("sequence_lengths")) {
    return TensorDescriptor::of_sequences(arguments.get<Shape>("shape"),
                                          arguments.get<Shape>("sequence_lengths"),
                                          arguments.get<bool>("sorted_sequences"), type);
  }
  if (arguments.given("shape")) {
    return {arguments.get<Shape>("shape"), type};
  }
  if (arguments.given("width")) {
    return {
        {extent("batch_size"), extent("feature_channel_count"), extent("height"), extent("width")},
        type};
  }
  // Apple flattens the two channel counts of weights into one axis.
  const auto channels = [&extent](const char* inputs) {
    return element_count({extent("output_feature_channel_count"), extent(inputs)});
  };
  if (arguments.given("convolution_weights_with_width")) {
    return {{1, channels("input_feature_channel_count"), extent("height"),
             extent("convolution_weights_with_width")},
            type};
  }
  if (arguments.given("convolution_weights_with_input_feature_channel_count")) {
    return {{1, channels("convolution_weights_with_input_feature_channel_count"), 1, 1}, type};
  }
  return {{1, extent("convolution_biases_with_feature_channel_count"), 1, 1}, type};
}

}  // namespace

void bind_tensor_descriptor(py::module_& module) {
  using Self = TensorDescriptor;
  auto cls = BoundClass<Self>(module, "MLCTensorDescriptor",
                              "Shape, outermost axis first, and element type of a tensor.");
  const std::string type = "data_type: MLCDataType | DTypeLike = MLCDataType.FLOAT32";
  def_init(cls,
           {"shape: Sequence[int], " + type,
            "shape: Sequence[int], sequence_lengths: "
            "Sequence[int], sorted_sequences: bool, " +
                type,
            "width: int, height: int, feature_channel_count: int, batch_size: int, " + type,
            "convolution_weights_with_width: int, height: int, input_feature_channel_count: int, "
            "output_feature_channel_count: int, " +
                type,
            "convolution_weights_with_input_feature_channel_count: int, "
            "output_feature_channel_count: int, " +
                type,
            "convolution_biases_with_feature_channel_count: int, " + type},
           "Shapes: images are (N, C, H, W), weights (1, O * C, kh, kw), biases (1, O, 1, 1), "
           "sequences (N, steps, features). Errors: ValueError for more than 4 axes, an extent "
           "below 1, or sorted sequences that do not descend.",
           make_tensor_descriptor);
  cls.def_readonly("shape", &Self::shape, "Extents, outermost first.");
  cls.def_readonly("data_type", &Self::data_type, "The type of an element.");
  cls.def_property_readonly(
      "dimension_count", [](const Self& self) { return self.shape.size(); },
      "How many axes there are.");
  cls.def_property_readonly("stride", &Self::stride,
                            "Distance of neighbours along each axis. Units: bytes.");
  cls.def_property_readonly("tensor_allocation_size_in_bytes", &Self::allocation_bytes,
                            "Size of the elements. Units: bytes.");
  const auto or_none = [](Shape lengths) -> std::optional<Shape> {
    if (lengths.empty()) return std::nullopt;
    return lengths;
  };
  cls.def_property_readonly(
      "sequence_lengths", [or_none](const Self& self) { return or_none(self.sequence_lengths); },
      "Steps of each sequence; None without sequences.");
  cls.def_readonly("sorted_sequences", &Self::sorted_sequences,
                   "Whether the sequences descend in length.");
  cls.def_property_readonly(
      "batch_size_per_sequence_step",
      [or_none](const Self& self) { return or_none(self.batch_size_per_sequence_step()); },
      "Entry t is how many sequences are longer than t; None without sequences.");
  def_getter(cls, "max_tensor_dimensions", "int", "How many axes a tensor may have.",
             [] { return kMaxTensorDimensions; });
  def_copy(cls, [](const Self& self) { return self; });
  def_equal(cls, std::equal_to<Self>());
  cls.def("__hash__", [](const Self& self) {
    return py::hash(py::make_tuple(py::tuple(py::cast(self.shape)), py::cast(self.data_type)));
  });
  cls.def("__repr__", [](const Self& self) {
    const std::string sequences =
        self.sequence_lengths.empty() ? "" : ", sequences of " + to_string(self.sequence_lengths);
    return "<MLCTensorDescriptor " + to_string(self.shape) + " " + name(self.data_type) +
           sequences + ">";
  });
}

}  // namespace traingraph::python
