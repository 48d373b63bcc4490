// Losses, their gradients, what they are told, and what they are given.
#include <traingraph/mps/forward_loss.h>

#include "mps/description/describe_kernel.h"

namespace traingraph::mps {
namespace {

// One image, and of its descriptor the rest.
ImageDescriptor resized(ImageDescriptor descriptor, const Size& size) {
  descriptor.number_of_images = 1;
  descriptor.width = size.width;
  descriptor.height = size.height;
  descriptor.feature_channels = size.depth;
  return descriptor;
}

// --- kernels -------------------------------------------------------------------------------------

// What a descriptor says is also each kernel's own; numbers can be set where the kernel says so.
template <class K, class Parent>
Describing<K, Kernel, Parent> describe_loss(const char* kind, const char* summary,
                                            const char* shapes) {
  using D = CNNLossDescriptor;
  auto described = describe_kernel<K, Parent>(kind, summary);
  described.kept_argument("loss_descriptor", &K::descriptor, "The function, with its numbers.")
      .template made_of<Device, D>(shapes);
  const auto fixed = [&](const char* name, auto member, const char* text) {
    described.property(
        name, [member](const K& kernel) { return kernel.descriptor().*member; }, text);
  };
  const auto number = [&](const char* name, auto member, const char* text) {
    if constexpr (requires { &K::set_descriptor; }) {
      described.settable_part(name, &K::descriptor, &K::set_descriptor, member, text)
          .part_of_argument();
    } else {
      fixed(name, member, text);
    }
  };
  fixed("loss_type", &D::loss_type, "The function.");
  fixed("reduction_type", &D::reduction_type, "The reduction of the values.");
  fixed("reduce_across_batch", &D::reduce_across_batch, "Whether images are joined.");
  fixed("number_of_classes", &D::number_of_classes, "For label smoothing.");
  number("weight", &D::weight, "A factor of every value.");
  number("label_smoothing", &D::label_smoothing,
         "The share of each label that is spread over the classes.");
  described.in(kShareBelowOne);
  number("epsilon", &D::epsilon, "Inside of LOG's logarithms.");
  number("delta", &D::delta, "HUBER's.");
  return described;
}

// --- values --------------------------------------------------------------------------------------

ClassDescription loss_descriptor() {
  using D = CNNLossDescriptor;
  return Describing<D>("MPSCNNLossDescriptor", "A loss kernel's function.")
      .factory("cnn_loss_descriptor", "With Apple's defaults for the rest.",
               {{argument<CNNLossType>("with_type", "The function."),
                 argument<CNNReductionType>("reduction_type", "The reduction of the values.")}},
               [](const Given& given) {
                 D d;
                 d.loss_type = given.get<CNNLossType>("with_type");
                 d.reduction_type = given.get<CNNReductionType>("reduction_type");
                 return d;
               })
      .settable("loss_type", &D::loss_type, "The function.")
      .settable("reduction_type", &D::reduction_type, "The reduction of the values.")
      .settable("reduce_across_batch", &D::reduce_across_batch,
                "Whether the images are joined too.")
      .settable("weight", &D::weight, "A factor of every value.")
      .settable("label_smoothing", &D::label_smoothing,
                "The share of each label that is spread over the classes.")
      .in(kShareBelowOne)
      .settable("number_of_classes", &D::number_of_classes,
                "For label smoothing; 0: as many as channels.")
      .settable("epsilon", &D::epsilon, "Inside of LOG's logarithms.")
      .settable("delta", &D::delta, "HUBER's.");
}

ClassDescription loss_data() {
  using D = CNNLossDataDescriptor;
  return Describing<D>("MPSCNNLossDataDescriptor",
                       "Labels or weights of one image in the caller's memory.")
      .factory("cnn_loss_data_descriptor",
               "Copies the data. Types: float32. Errors: fewer numbers than the size has.",
               {{argument<CNNLossData>("with_data", "The values of the labels."),
                 argument<DataLayout>("layout", "The order of the numbers."),
                 argument<Size>("size", "(width, height, channels).")}},
               [](const Given& given) {
                 const TensorData data = given.get<CNNLossData>("with_data").data.on_host();
                 return D(data.bytes, data.length, given.get<DataLayout>("layout"),
                          resized({}, given.get<Size>("size")));
               })
      .property("layout", &D::layout, "The order of the numbers.")
      .property(
          "size",
          [](const D& self) {
            return Size{self.size().width, self.size().height, self.size().feature_channels};
          },
          "MTLSize (width, height, channels).")
      .settable("bytes_per_row", &D::bytes_per_row,
                "From one row to the next; those of a row without anything behind it at the "
                "beginning. Errors: in MPSCNNLossLabels, where the data is shorter.")
      .settable("bytes_per_image", &D::bytes_per_image,
                "From one channel's plane to the next where channels come first; else of the "
                "image. Errors: in MPSCNNLossLabels, where the data is shorter.");
}

// --- labels --------------------------------------------------------------------------------------

constexpr const char* kLabelsImage = "labels_image";
constexpr const char* kWeightsImage = "weights_image";
constexpr const char* kLabelsData = "labels_descriptor";
constexpr const char* kWeightsData = "weights_descriptor";

ClassDescription loss_labels() {
  using Labels = CNNLossLabels;
  using Data = CNNLossDataDescriptor;
  const auto device = argument<Device>("device", "The device that runs it.");
  const auto size = argument<Size>(
      "loss_image_size",
      "(width, height, channels) of the loss as it is reduced; one value where there is none.",
      &kOneOrMore);
  const auto labels_image = argument<ImagePtr>(kLabelsImage, "The true values.");
  const auto weights_image = optional_argument<ImagePtr>(
      kWeightsImage,
      "One weight per value, or of softmax cross entropy one per class: -sum w t log p.");
  const auto labels_data = argument<Data>(kLabelsData, "The labels, as data.");
  const auto weights_data = optional_argument<Data>(kWeightsData, "The same as data.");
  const auto loss_image =
      argument<ImagePtr>("loss_image", "The image that the loss is written to.");
  const auto made = [](const Given& given, const ImagePtr& labels, const ImagePtr& weights) {
    return std::make_shared<Labels>(
        given.get<Device>("device"),
        resized(labels->descriptor(), given.get<Size>("loss_image_size")), labels, weights);
  };
  return Describing<Labels, State>("MPSCNNLossLabels",
                                   "The labels of one image, and where its loss goes.")
      .form({device, size, labels_image, weights_image},
            [made](const Given& given) {
              return made(given, given.get<ImagePtr>(kLabelsImage),
                          given.get<ImagePtr>(kWeightsImage));
            })
      .form({device, size, labels_data, weights_data},
            [made](const Given& given) {
              const auto on = given.get<Device>("device");
              const std::any& weights = *given.find(kWeightsData);
              return made(
                  given, given.get<Data>(kLabelsData).image(on),
                  weights.has_value() ? std::any_cast<const Data&>(weights).image(on) : nullptr);
            })
      .form({device, labels_data},
            [](const Given& given) {
              return std::make_shared<Labels>(given.get<Device>("device"),
                                              given.get<Data>(kLabelsData));
            })
      .form({loss_image, labels_image, weights_image},
            [](const Given& given) {
              return std::make_shared<Labels>(given.get<ImagePtr>("loss_image"),
                                              given.get<ImagePtr>(kLabelsImage),
                                              given.get<ImagePtr>(kWeightsImage));
            })
      .text(
          "Data becomes images of float32. The form with a loss image is an addition of "
          "traingraph: the images of a batch may share one's memory.")
      .function("loss_image", &Labels::loss_image, "The image that the loss is written to.")
      .function(kLabelsImage, &Labels::labels_image, "The true values.")
      .optional_function(kWeightsImage, &Labels::weights_image, "The weights, or None.");
}

}  // namespace

void describe_losses(Classes& classes) {
  using Gradient = NNLossGradient;
  classes.push_back(
      describe_loss<CNNLoss, Kernel>(
          "MPSCNNLoss", "The loss into the labels; its result is the loss's gradient.",
          "Shapes: labels as the source, (N, C, H, W), and the gradient too. Errors: "
          "COSINE_DISTANCE with another reduction than SUM.")
          .settable(
              "header_formula", &CNNLoss::header_formula, &CNNLoss::set_header_formula,
              "Whether Apple's text is computed in place of the derivative, for comparison: "
              "softmax - t, hinge of labels 2 t - 1, Huber's delta without its sign, -t / y of "
              "Kullback and Leibler. "
              "An addition of traingraph. Errors: losses whose printed gradient is their "
              "derivative.")
          .settable("makes_temporary_images", &CNNLoss::makes_temporary_images,
                    &CNNLoss::set_makes_temporary_images, kMakesTemporaryImages)
          .settable(kAllocator, &CNNLoss::image_allocator, &CNNLoss::set_image_allocator,
                    kAllocatorText)
          .only_copied());
  classes.push_back(describe_loss<NNForwardLoss, CNNKernel>(
      "MPSNNForwardLoss", "A loss as an image; its gradient is MPSNNLossGradient's.",
      "Shapes: (N, C, H, W) to (N, 1, 1, 1), or without a reduction per element."));
  classes.push_back(
      describe_loss<Gradient, CNNBinaryKernel>(
          "MPSNNLossGradient",
          "The loss's derivative times the gradient that comes in, by predictions or by labels.",
          "The forward kernel's descriptor.")
          .settable(
              "header_formula", &Gradient::header_formula, &Gradient::set_header_formula,
              "Whether Apple's text is computed in place of the derivative, for comparison: "
              "softmax - t, hinge of labels 2 t - 1, Huber's delta without its sign, -t / y of "
              "Kullback and Leibler. "
              "By labels it is exact. An addition of traingraph. Errors: losses whose "
              "printed gradient is their derivative.")
          .settable("compute_label_gradients", &Gradient::compute_label_gradients,
                    &Gradient::set_compute_label_gradients,
                    "Whether the gradient is by the labels rather than by the predictions."));
  classes.push_back(
      describe_kernel<NNInitialGradient, CNNKernel>(
          "MPSNNInitialGradient", "Ones, of the source's size: where a gradient begins.")
          .made_of<Device>("Shapes: any to the same."));
}

void describe_loss_states(Classes& classes) { classes.push_back(loss_labels()); }

void describe_loss_values(Classes& classes) {
  classes.insert(classes.end(), {loss_descriptor(), loss_data()});
}

}  // namespace traingraph::mps
