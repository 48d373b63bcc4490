#include "mps_bindings.h"
#include "mps_coding.h"
#include "mps_encoding.h"

namespace traingraph::python {
namespace {

using mps::CNNGradientKernel;
using mps::CNNKernel;
using mps::CNNUpsampling;
using mps::CNNUpsamplingGradient;
using mps::NNConcatenation;
using mps::NNPad;
using mps::NNPadGradient;
using mps::NNReshape;
using mps::NNSlice;
using mps::Upsampling;

template <bool kBilinear, typename Base>
struct UpsamplingOf final : Base {
  using Core = Base;
  explicit UpsamplingOf(const Core& core) : Core(core) {}
  UpsamplingOf(const mps::Device& device, const Upsampling& upsampling)
      : Base(device, upsampling) {}
};

// --- upsampling ----------------------------------------------------------------------------------

template <bool kBilinear, typename Base>
void bind_upsampling_kernel(py::module_& module, const char* name, const char* doc,
                            const char* detail, bool has_corners) {
  using T = UpsamplingOf<kBilinear, Base>;
  auto cls = BoundClass<T, Base, std::shared_ptr<T>>(module, name, doc);
  const std::string form =
      std::string(kDevice) + ", integer_scale_factor_x: int, integer_scale_factor_y: int";
  const std::string corners = has_corners ? ", align_corners: bool = False" : "";
  def_kernel(cls, {form + corners}, detail, [has_corners](const Arguments& arguments) {
    Upsampling upsampling;
    upsampling.bilinear = kBilinear;
    upsampling.scale_x = arguments.get<std::int64_t>("integer_scale_factor_x");
    upsampling.scale_y = arguments.get<std::int64_t>("integer_scale_factor_y");
    upsampling.align_corners = has_corners && arguments.get<bool>("align_corners");
    return std::make_shared<T>(to_mps_device(arguments["device"]), upsampling);
  });
}

template <typename Class>
void def_scales(Class& cls) {
  using Self = typename Class::type;
  cls.def_property_readonly(
      "scale_factor_x",
      [](const Self& self) { return static_cast<double>(self.upsampling().scale_x); },
      "Result columns per source column.");
  cls.def_property_readonly(
      "scale_factor_y",
      [](const Self& self) { return static_cast<double>(self.upsampling().scale_y); },
      "Result rows per source row.");
}

void bind_upsampling(py::module_& module) {
  auto forward = BoundClass<CNNUpsampling, CNNKernel, std::shared_ptr<CNNUpsampling>>(
      module, "MPSCNNUpsampling", "A larger image by whole factors.");
  def_scales(forward);
  forward.def_property_readonly(
      "align_corners", [](const CNNUpsampling& self) { return self.upsampling().align_corners; },
      "Whether first and last pixels of source and result coincide.");
  auto gradient =
      BoundClass<CNNUpsamplingGradient, CNNGradientKernel, std::shared_ptr<CNNUpsamplingGradient>>(
          module, "MPSCNNUpsamplingGradient", "The sum over the pixels that read a source pixel.");
  def_scales(gradient);
  gradient.def_property(
      "align_corners",
      [](const CNNUpsamplingGradient& self) { return self.upsampling().align_corners; },
      &CNNUpsamplingGradient::set_align_corners,
      "Of the forward kernel; the form that returns an image takes it from the state. An addition "
      "of traingraph.");
  bind_upsampling_kernel<false, CNNUpsampling>(
      module, "MPSCNNUpsamplingNearest", "Every pixel as a block.",
      "Shapes: (N, C, H, W) to (N, C, sy H, sx W).", false);
  bind_upsampling_kernel<true, CNNUpsampling>(
      module, "MPSCNNUpsamplingBilinear", "Pixels between their neighbours.",
      "Without align_corners pixel i of the result lies at (i + 1/2) / scale - 1/2 of the source, "
      "and the edge goes on beyond it.",
      true);
  bind_upsampling_kernel<false, CNNUpsamplingGradient>(module, "MPSCNNUpsamplingNearestGradient",
                                                       "The sum of each block.",
                                                       "The forward kernel's factors.", false);
  bind_upsampling_kernel<true, CNNUpsamplingGradient>(module, "MPSCNNUpsamplingBilinearGradient",
                                                      "The interpolation transposed.",
                                                      "The forward kernel's factors.", false);
}

void bind_resize(py::module_& module) {
  using T = mps::NNResizeBilinear;
  auto cls = BoundClass<T, CNNKernel, std::shared_ptr<T>>(
      module, "MPSNNResizeBilinear", "An image of any size; it has no gradient kernel.");
  def_kernel(cls,
             {std::string(kDevice) +
              ", resize_width: int, resize_height: int, align_corners: bool = False"},
             "Without align_corners pixel i of the result lies at (i + 1/2) size / resize size - "
             "1/2 of the source, and the edge goes on beyond it.",
             [](const Arguments& arguments) {
               return std::make_shared<T>(to_mps_device(arguments["device"]),
                                          arguments.get<std::int64_t>("resize_width"),
                                          arguments.get<std::int64_t>("resize_height"),
                                          arguments.get<bool>("align_corners"));
             });
  cls.def_property_readonly("resize_width", &T::resize_width, "The result's columns.");
  cls.def_property_readonly("resize_height", &T::resize_height, "The result's rows.");
  cls.def_property_readonly("align_corners", &T::align_corners,
                            "Whether first and last pixels of source and result coincide.");
}

// --- reshape, padding, slice, concatenation ------------------------------------------------------

mps::Offset to_coordinate(const py::object& value, const Where& where) {
  const auto numbers = convert_list<std::int64_t>(value, where);
  if (numbers.size() != 3) refuse(where, value);
  return {numbers[0], numbers[1], numbers[2]};
}
py::object from_coordinate(const mps::Offset& o) { return py::make_tuple(o.x, o.y, o.z); }

// Sets the size and goes on as the base class does.
py::object encode_reshape(NNReshape& self, const Arguments& arguments, const char* method) {
  if (arguments.given("reshaped_width")) {
    self.set_reshaped(arguments.get<std::int64_t>("reshaped_width"),
                      arguments.get<std::int64_t>("reshaped_height"),
                      arguments.get<std::int64_t>("reshaped_feature_channels"));
  }
  py::dict others;
  for (const char* name :
       {"source_image", "source_images", "destination_image", "destination_images",
        "destination_state", "destination_states", "destination_state_is_temporary"}) {
    if (arguments.given(name)) others[name] = arguments[name];
  }
  return py::type::of<CNNKernel>().attr(method)(py::cast(&self), arguments["command_buffer"],
                                                **others);
}

std::vector<std::string> reshape_forms(bool batch) {
  const std::string end = batch ? "s" : "";
  const std::string image = batch ? "collections.abc.Sequence[MPSImage]" : "MPSImage";
  const std::string state = batch ? "collections.abc.Sequence[MPSState]" : "MPSState";
  const std::string source = "command_buffer: MTLCommandBuffer, source_image" + end + ": " + image;
  const std::string to = ", destination_image" + end + ": " + image;
  const std::string size =
      ", reshaped_width: int, reshaped_height: int, reshaped_feature_channels: int";
  const std::string flag = ", destination_state_is_temporary: bool";
  const std::string list = ", destination_state" + end + ": list[MPSState]";
  return {source + size, source + flag + size, source + list + flag + size, source + to,
          source + ", destination_state" + end + ": " + state + to};
}

void bind_reshape(py::module_& module) {
  auto cls = bind_plain<NNReshape, CNNKernel>(
      module, "MPSNNReshape", "The same elements as an image of another size.",
      "Elements are counted by channels, then rows, then columns.");
  cls.def_property(
      "_reshaped", [](const NNReshape& self) { return from_coordinate(self.reshaped_size()); },
      [](NNReshape& self, const py::object& value) {
        const mps::Offset size = to_coordinate(value, {"MPSNNReshape", "size", {}});
        self.set_reshaped(size.x, size.y, size.z);
      });
  def_method(cls, "encode", "typing.Any", reshape_forms(false),
             "Encodes one image. Errors: another number of elements.",
             [](NNReshape& self, const Arguments& a) { return encode_reshape(self, a, "encode"); });
  def_method(
      cls, "encode_batch", "typing.Any", reshape_forms(true),
      "Encodes a batch. Errors: another number of elements.",
      [](NNReshape& self, const Arguments& a) { return encode_reshape(self, a, "encode_batch"); });
  bind_plain<mps::NNReshapeGradient, CNNGradientKernel>(
      module, "MPSNNReshapeGradient", "The gradient in the source's size.",
      "Reads the size of the forward source alone.");
}

void bind_pad(py::module_& module) {
  auto cls = BoundClass<NNPad, CNNKernel, std::shared_ptr<NNPad>>(
      module, "MPSNNPad", "Pixels and channels around an image, by edge mode.");
  def_kernel(
      cls,
      {std::string(kDevice) +
       ", padding_size_before: tuple[int, int, int] = (0, 0, 0), padding_size_after: "
       "tuple[int, int, int] = (0, 0, 0), fill_value_array: collections.abc.Iterable[float] | "
       "None = None"},
      "Sizes (x, y, channel). A fill value per result channel makes the edge mode CONSTANT.",
      [](const Arguments& arguments) {
        std::vector<float> fill;
        if (!arguments["fill_value_array"].is_none()) {
          fill = convert_list<float>(arguments["fill_value_array"],
                                     arguments.where("fill_value_array"));
        }
        return std::make_shared<NNPad>(
            to_mps_device(arguments["device"]),
            to_coordinate(arguments["padding_size_before"], arguments.where("padding_size_before")),
            to_coordinate(arguments["padding_size_after"], arguments.where("padding_size_after")),
            std::move(fill));
      });
  const Where where{"MPSNNPad", "padding size", "(x, y, channel)"};
  cls.def_property(
      "padding_size_before",
      [](const NNPad& self) { return from_coordinate(self.padding_size_before()); },
      [where](NNPad& self, const py::object& value) {
        self.set_padding_size_before(to_coordinate(value, where));
      },
      "(x, y, channel) to the left, above and in front.");
  cls.def_property(
      "padding_size_after",
      [](const NNPad& self) { return from_coordinate(self.padding_size_after()); },
      [where](NNPad& self, const py::object& value) {
        self.set_padding_size_after(to_coordinate(value, where));
      },
      "(x, y, channel) to the right, below and behind.");
  cls.def_property_readonly("_fill_value_array", &NNPad::fill_values,
                            "One per result channel, or empty.");
  cls.def_property("fill_value", &NNPad::fill_value, &NNPad::set_fill_value,
                   "What edge mode CONSTANT fills with.");
  bind_plain<NNPadGradient, CNNGradientKernel>(
      module, "MPSNNPadGradient",
      "The image's part; a clamped or mirrored margin's is added to what it was copied from.",
      "primary_offset is the size before, secondary_edge_mode that of the forward kernel.");
}

void bind_channels(py::module_& module) {
  auto slice = bind_plain<NNSlice, CNNKernel>(module, "MPSNNSlice", "Some of the channels.",
                                              "All channels until the properties say otherwise.");
  slice.def_property("source_feature_channel_offset", &NNSlice::source_feature_channel_offset,
                     &NNSlice::set_source_feature_channel_offset, "The first channel.");
  slice.def_property("source_feature_channel_max_count", &NNSlice::source_feature_channel_max_count,
                     &NNSlice::set_source_feature_channel_max_count, "How many at most.");

  auto concatenation = BoundClass<NNConcatenation, mps::Kernel, std::shared_ptr<NNConcatenation>>(
      module, "MPSNNConcatenation", "The sources' channels one after another.");
  def_kernel(concatenation, {kDevice}, "Not a class of Apple's, whose graphs alone join images.",
             [](const Arguments& arguments) {
               return std::make_shared<NNConcatenation>(to_mps_device(arguments["device"]));
             });
  def_allocator(concatenation);
  const std::string sources =
      "command_buffer: MTLCommandBuffer, source_images: list[collections.abc.Sequence[MPSImage]]";
  def_method(
      concatenation, "encode_batch", "collections.abc.Sequence[MPSImage] | None",
      {sources, sources + ", destination_images: collections.abc.Sequence[MPSImage]"},
      "One batch per source. Gradient: one MPSNNSlice per source.",
      [](NNConcatenation& self, const Arguments& arguments) -> py::object {
        std::vector<mps::ImageBatch> batches;
        for (const py::object& batch :
             to_items(arguments["source_images"], arguments.where("source_images"))) {
          batches.push_back(convert<mps::ImageBatch>(batch, arguments.where("source_images")));
        }
        mps::CommandBuffer& buffer = command_buffer(arguments);
        if (!arguments.given("destination_images")) {
          return py::cast(self.encode_batch(buffer, batches));
        }
        self.encode_batch(buffer, batches, images(arguments, "destination_images", true));
        return py::none();
      });
}

}  // namespace

void bind_mps_resampling(py::module_& module) {
  bind_upsampling(module);
  bind_reshape(module);
  bind_pad(module);
  bind_channels(module);
  bind_resize(module);
}

}  // namespace traingraph::python
