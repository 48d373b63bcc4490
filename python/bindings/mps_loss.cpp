#include "data.h"
#include "mps_bindings.h"
#include "mps_coding.h"
#include "mps_encoding.h"

namespace traingraph::python {
namespace {

using mps::CNNLoss;
using mps::CNNLossDescriptor;
using mps::CNNLossLabels;
using mps::CNNLossLabelsBatch;
using mps::ImagePtr;

// (width, height, depth) as MTLSize has it: depth counts channels. The rest is as it was.
mps::ImageDescriptor size_of(const Arguments& arguments, const char* name,
                             mps::ImageDescriptor descriptor) {
  const auto size = convert_list<std::int64_t>(arguments[name], arguments.where(name));
  if (size.size() != 3) {
    throw InvalidArgument("[MPSCNNLoss] expected " + std::string(name) +
                          " (width, height, depth) but got " + std::to_string(size.size()) +
                          " numbers");
  }
  descriptor.number_of_images = 1;
  descriptor.width = size[0];
  descriptor.height = size[1];
  descriptor.feature_channels = size[2];
  return descriptor;
}

py::object encode(CNNLoss& self, const Arguments& arguments, bool batch) {
  mps::CommandBuffer& buffer = command_buffer(arguments);
  const auto sources = images(arguments, batch ? "source_images" : "source_image", batch);
  const CNNLossLabelsBatch labels =
      batch ? arguments.get<CNNLossLabelsBatch>("labels")
            : CNNLossLabelsBatch{arguments.get<std::shared_ptr<CNNLossLabels>>("labels")};
  const char* const destination = batch ? "destination_images" : "destination_image";
  if (!arguments.given(destination)) {
    return result_images(self.encode_batch(buffer, sources, labels), batch);
  }
  self.encode_batch(buffer, sources, labels, images(arguments, destination, batch));
  return py::none();
}

using Data = mps::CNNLossDataDescriptor;

void bind_data(py::module_& module) {
  auto data = BoundClass<Data>(module, "MPSCNNLossDataDescriptor",
                               "Labels or weights of one image in the caller's memory.");
  def_factory(data, "cnn_loss_data_descriptor", "MPSCNNLossDataDescriptor",
              {"with_data: numpy.typing.ArrayLike, layout: MPSDataLayout | str, size: tuple[int, "
               "int, int]"},
              "Copies the data. Types: float32. Shapes: size (width, height, channels). Errors: "
              "fewer numbers than the size has.",
              [](const Arguments& arguments) {
                const TensorData bytes =
                    readable_data(arguments["with_data"], DataType::kFloat32,
                                  {"MPSCNNLossDataDescriptor", "with_data", {}});
                return Data(bytes.bytes, bytes.length, arguments.get<mps::DataLayout>("layout"),
                            size_of(arguments, "size", {}));
              });
  data.def_property_readonly(
      "layout", [](const Data& self) { return self.layout(); }, "The order of the numbers.");
  data.def_property_readonly(
      "size",
      [](const Data& self) {
        const mps::ImageDescriptor& size = self.size();
        return py::module_::import("traingraph.mps")
            .attr("MTLSize")(size.width, size.height, size.feature_channels);
      },
      "MTLSize (width, height, channels).");
  data.def_readwrite("bytes_per_row", &Data::bytes_per_row,
                     "From one row to the next; those of a row without anything behind it at the "
                     "beginning. Errors: in MPSCNNLossLabels, where the data is shorter.");
  data.def_readwrite("bytes_per_image", &Data::bytes_per_image,
                     "From one channel's plane to the next where channels come first; else of the "
                     "image. Errors: in MPSCNNLossLabels, where the data is shorter.");
  def_copy(data, [](const Data& self) { return self; });
}

std::shared_ptr<CNNLossLabels> labels_of_data(const Arguments& arguments) {
  const mps::Device device = to_mps_device(arguments["device"]);
  const Data labels = arguments.get<Data>("labels_descriptor");
  if (!arguments.given("loss_image_size")) return std::make_shared<CNNLossLabels>(device, labels);
  const auto weights = arguments.optional<Data>("weights_descriptor");
  return std::make_shared<CNNLossLabels>(
      device, size_of(arguments, "loss_image_size", labels.size()), labels.image(device),
      weights.has_value() ? weights->image(device) : nullptr);
}

}  // namespace

void bind_mps_loss(py::module_& module) {
  bind_data(module);
  using Descriptor = CNNLossDescriptor;
  auto descriptor =
      BoundClass<Descriptor>(module, "MPSCNNLossDescriptor", "A loss kernel's function.");
  def_factory(descriptor, "cnn_loss_descriptor", "MPSCNNLossDescriptor",
              {"with_type: MPSCNNLossType | str, reduction_type: MPSCNNReductionType | str"},
              "With Apple's defaults for the rest.", [](const Arguments& arguments) {
                Descriptor d;
                d.loss_type = arguments.get<mps::CNNLossType>("with_type");
                d.reduction_type = arguments.get<mps::CNNReductionType>("reduction_type");
                return d;
              });
  descriptor.def_property(
      "loss_type", [](const Descriptor& self) { return self.loss_type; },
      [](Descriptor& self, mps::CNNLossType value) { self.loss_type = value; }, "The function.");
  descriptor.def_property(
      "reduction_type", [](const Descriptor& self) { return self.reduction_type; },
      [](Descriptor& self, mps::CNNReductionType value) { self.reduction_type = value; },
      "What joins the values.");
  descriptor.def_readwrite("reduce_across_batch", &Descriptor::reduce_across_batch,
                           "Whether the images are joined too.");
  descriptor.def_readwrite("weight", &Descriptor::weight, "A factor of every value.");
  descriptor.def_readwrite("label_smoothing", &Descriptor::label_smoothing, "From 0 to below 1.");
  descriptor.def_readwrite("number_of_classes", &Descriptor::number_of_classes,
                           "For label smoothing; 0: as many as channels.");
  descriptor.def_readwrite("epsilon", &Descriptor::epsilon, "Inside of LOG's logarithms.");
  descriptor.def_readwrite("delta", &Descriptor::delta, "HUBER's.");
  def_copy(descriptor, [](const Descriptor& self) { return self; });
  def_coded(descriptor);

  auto labels = BoundClass<CNNLossLabels, mps::State, std::shared_ptr<CNNLossLabels>>(
      module, "MPSCNNLossLabels", "The labels of one image, and where its loss goes.");
  def_init(labels,
           {"device: MTLDevice | MLCDevice | str, loss_image_size: tuple[int, int, int], "
            "labels_image: MPSImage, weights_image: MPSImage | None = None",
            "device: MTLDevice | MLCDevice | str, loss_image_size: tuple[int, int, int], "
            "labels_descriptor: MPSCNNLossDataDescriptor, weights_descriptor: "
            "MPSCNNLossDataDescriptor | None = None",
            "device: MTLDevice | MLCDevice | str, labels_descriptor: MPSCNNLossDataDescriptor",
            "loss_image: MPSImage, labels_image: MPSImage, weights_image: MPSImage | None = None"},
           "Shapes: loss_image_size (width, height, channels) of the loss as it is reduced; one "
           "value where there is none. Data becomes images of float32. The "
           "form with a loss image is an addition of traingraph: the images of a batch may share "
           "one's memory.",
           [](const Arguments& arguments) {
             if (arguments.given("labels_descriptor")) return labels_of_data(arguments);
             const auto truth = arguments.get<ImagePtr>("labels_image");
             const auto weights = arguments.nullable<ImagePtr>("weights_image");
             if (arguments.given("loss_image")) {
               return std::make_shared<CNNLossLabels>(arguments.get<ImagePtr>("loss_image"), truth,
                                                      weights);
             }
             return std::make_shared<CNNLossLabels>(
                 to_mps_device(arguments["device"]),
                 size_of(arguments, "loss_image_size", truth->descriptor()), truth, weights);
           });
  labels.def("loss_image", &CNNLossLabels::loss_image, "Where the loss goes.");
  labels.def("labels_image", &CNNLossLabels::labels_image, "What is true.");
  labels.def("weights_image", &CNNLossLabels::weights_image, "One weight per value, or None.");

  auto loss = BoundClass<CNNLoss, mps::Kernel, std::shared_ptr<CNNLoss>>(
      module, "MPSCNNLoss", "The loss into the labels; its result is the loss's gradient.");
  def_kernel(loss, {"device: MTLDevice | MLCDevice | str, loss_descriptor: MPSCNNLossDescriptor"},
             "Errors: COSINE_DISTANCE with another reduction than SUM.",
             [](const Arguments& arguments) {
               return std::make_shared<CNNLoss>(to_mps_device(arguments["device"]),
                                                arguments.get<Descriptor>("loss_descriptor"));
             });
  def_allocator(loss);
  loss.def_property(
      "header_formula", &CNNLoss::header_formula, &CNNLoss::set_header_formula,
      "Whether Apple's text is computed in place of the derivative, for comparison: softmax - t, "
      "Huber's delta without its sign, -t / y of Kullback and Leibler. An addition of traingraph. "
      "Errors: losses whose printed gradient is their derivative.");
  loss.def_property_readonly(
      "loss_type", [](const CNNLoss& self) { return self.descriptor().loss_type; },
      "The function.");
  loss.def_property_readonly(
      "reduction_type", [](const CNNLoss& self) { return self.descriptor().reduction_type; },
      "What joins the values.");
  const auto number = [&loss](const char* name, auto member, const char* doc) {
    loss.def_property_readonly(
        name, [member](const CNNLoss& self) { return self.descriptor().*member; }, doc);
  };
  number("weight", &Descriptor::weight, "A factor of every value.");
  number("label_smoothing", &Descriptor::label_smoothing, "From 0 to below 1.");
  number("number_of_classes", &Descriptor::number_of_classes, "For label smoothing.");
  number("epsilon", &Descriptor::epsilon, "Inside of LOG's logarithms.");
  number("delta", &Descriptor::delta, "HUBER's.");
  number("reduce_across_batch", &Descriptor::reduce_across_batch, "Whether images are joined.");
  def_method(loss, "encode", "MPSImage | None",
             {"command_buffer: MTLCommandBuffer, source_image: MPSImage, "
              "labels: MPSCNNLossLabels, destination_image: MPSImage",
              "command_buffer: MTLCommandBuffer, source_image: MPSImage, labels: MPSCNNLossLabels"},
             "Gradient: the destination, with the reduction's factor.",
             [](CNNLoss& self, const Arguments& a) { return encode(self, a, false); });
  def_method(
      loss, "encode_batch", "collections.abc.Sequence[MPSImage] | None",
      {"command_buffer: MTLCommandBuffer, source_images: collections.abc.Sequence[MPSImage], "
       "labels: list[MPSCNNLossLabels], destination_images: collections.abc.Sequence[MPSImage]",
       "command_buffer: MTLCommandBuffer, source_images: collections.abc.Sequence[MPSImage], "
       "labels: list[MPSCNNLossLabels]"},
      "Gradient: the destinations, with the reduction's factor.",
      [](CNNLoss& self, const Arguments& a) { return encode(self, a, true); });
}

}  // namespace traingraph::python
