// Shapes and element types of tensors, with Apple's forms for images, sequences, convolution
// weights and biases.
#include <traingraph/describe.h>

namespace traingraph {
namespace {

Argument extent(const char* name, const char* text) {
  return argument<std::int64_t>(name, text, &kOneOrMore);
}

Argument element_type() {
  return argument("data_type", DataType::kFloat32, "The type of an element.");
}

// `extents` is what makes the shape of what is given.
template <class Extents>
auto of_shape(Extents extents) {
  return [extents](const Given& given) {
    const auto get = [&given](const char* name) { return given.get<std::int64_t>(name); };
    return TensorDescriptor(extents(get), given.get<DataType>("data_type"));
  };
}

// Apple flattens the two channel counts of weights into one axis.
template <class Get>
std::int64_t channels(const Get& get, const char* inputs) {
  return element_count({get("output_feature_channel_count"), get(inputs)});
}

std::optional<Shape> or_none(Shape lengths) {
  if (lengths.empty()) return std::nullopt;
  return lengths;
}

std::size_t hash_of(const TensorDescriptor& self) {
  auto hash = static_cast<std::size_t>(self.data_type);
  for (const std::int64_t e : self.shape) hash = hash * 31 + static_cast<std::size_t>(e);
  return hash;
}

}  // namespace

const ClassDescription& TensorDescriptor::class_description() {
  using Self = TensorDescriptor;
  constexpr const char* kWidth = "convolution_weights_with_width";
  constexpr const char* kInputs = "convolution_weights_with_input_feature_channel_count";
  constexpr const char* kBiases = "convolution_biases_with_feature_channel_count";
  const Argument shape = argument<Shape>("shape", "Extents, outermost first.", &kOneOrMore);
  const Argument height = extent("height", "Rows.");
  const Argument outputs = extent("output_feature_channel_count", "Channels of the result.");
  static const ClassDescription description =
      Describing<Self>("MLCTensorDescriptor",
                       "Shape, outermost axis first, and element type of a tensor.")
          .text(
              "Shapes: images are (N, C, H, W), weights (1, O * C, kh, kw), biases (1, O, 1, 1), "
              "sequences (N, steps, features). Errors: ValueError for more than 4 axes, an extent "
              "below 1, or sorted sequences that do not descend.")
          .form({shape, element_type()},
                [](const Given& given) {
                  return Self(given.get<Shape>("shape"), given.get<DataType>("data_type"));
                })
          .form({shape, argument<Shape>("sequence_lengths", "Steps of each sequence.", &kOneOrMore),
                 argument<bool>("sorted_sequences", "Whether the sequences descend in length."),
                 element_type()},
                [](const Given& given) {
                  return Self::of_sequences(
                      given.get<Shape>("shape"), given.get<Shape>("sequence_lengths"),
                      given.get<bool>("sorted_sequences"), given.get<DataType>("data_type"));
                })
          .form({extent("width", "Columns."), height, extent("feature_channel_count", "Channels."),
                 extent("batch_size", "Images."), element_type()},
                of_shape([](const auto& get) {
                  return Shape{get("batch_size"), get("feature_channel_count"), get("height"),
                               get("width")};
                }))
          .form({extent(kWidth, "Columns of a kernel."), height,
                 extent("input_feature_channel_count", "Channels of the source."), outputs,
                 element_type()},
                of_shape([](const auto& get) {
                  return Shape{1, channels(get, "input_feature_channel_count"), get("height"),
                               get(kWidth)};
                }))
          .form({extent(kInputs, "Channels of the source."), outputs, element_type()},
                of_shape([](const auto& get) { return Shape{1, channels(get, kInputs), 1, 1}; }))
          .form({extent(kBiases, "Channels of the result."), element_type()},
                of_shape([](const auto& get) { return Shape{1, get(kBiases), 1, 1}; }))
          .property("shape", &Self::shape, "Extents, outermost first.")
          .property("data_type", &Self::data_type, "The type of an element.")
          .property(
              "dimension_count", [](const Self& self) { return self.shape.size(); },
              "The number of axes.")
          .property("stride", &Self::stride,
                    "Distance of neighbours along each axis. Units: bytes.")
          .property("tensor_allocation_size_in_bytes", &Self::allocation_bytes,
                    "Size of the elements. Units: bytes.")
          .property(
              "sequence_lengths", [](const Self& self) { return or_none(self.sequence_lengths); },
              "Steps of each sequence; None without sequences.")
          .property("sorted_sequences", &Self::sorted_sequences,
                    "Whether the sequences descend in length.")
          .property(
              "batch_size_per_sequence_step",
              [](const Self& self) { return or_none(self.batch_size_per_sequence_step()); },
              "Entry t is how many sequences are longer than t; None without sequences.")
          .class_function(
              "max_tensor_dimensions", [] { return kMaxTensorDimensions; },
              "The largest number of axes of a tensor.")
          .compared(hash_of)
          .repr([](const Self& self) {
            const Shape& lengths = self.sequence_lengths;
            return to_string(self.shape) + " " + name(self.data_type) +
                   (lengths.empty() ? "" : ", sequences of " + to_string(lengths));
          });
  return description;
}

}  // namespace traingraph
