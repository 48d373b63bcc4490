#include "mps_bindings.h"
#include "mps_coding.h"
#include "mps_encoding.h"

namespace traingraph::python {
namespace {

using mps::CNNLossDescriptor;
using mps::NNForwardLoss;
using mps::NNInitialGradient;
using mps::NNLossGradient;

constexpr const char* kForm =
    "device: MTLDevice | MLCDevice | str, loss_descriptor: MPSCNNLossDescriptor";

mps::ImageBatch weights_of(const Arguments& arguments) {
  return arguments.optional<mps::ImageBatch>("weights").value_or(mps::ImageBatch{});
}

template <typename Class, typename T>
void def_number(Class& cls, const char* name, T CNNLossDescriptor::* member, const char* doc) {
  using Self = typename Class::type;
  cls.def_property(
      name, [member](const Self& self) { return self.descriptor().*member; },
      [member](Self& self, T value) {
        CNNLossDescriptor changed = self.descriptor();
        changed.*member = value;
        self.set_descriptor(changed);
      },
      doc);
}

template <typename Class>
void def_descriptor(Class& cls) {
  using Self = typename Class::type;
  using D = CNNLossDescriptor;
  const auto fixed = [&cls](const char* name, auto member, const char* doc) {
    cls.def_property_readonly(
        name, [member](const Self& self) { return self.descriptor().*member; }, doc);
  };
  fixed("loss_type", &D::loss_type, "The function.");
  fixed("reduction_type", &D::reduction_type, "What joins the values.");
  fixed("reduce_across_batch", &D::reduce_across_batch, "Whether images are joined.");
  fixed("number_of_classes", &D::number_of_classes, "For label smoothing.");
  def_number(cls, "weight", &D::weight, "A factor of every value.");
  def_number(cls, "label_smoothing", &D::label_smoothing, "From 0 to below 1.");
  def_number(cls, "epsilon", &D::epsilon, "Inside of LOG's logarithms.");
  def_number(cls, "delta", &D::delta, "HUBER's.");
}

void bind_forward_loss(py::module_& module) {
  using Self = NNForwardLoss;
  auto cls = BoundClass<Self, mps::CNNKernel, std::shared_ptr<Self>>(
      module, "MPSNNForwardLoss", "A loss as an image; its gradient is MPSNNLossGradient's.");
  def_kernel(cls, {kForm},
             "Shapes: (N, C, H, W) to (N, 1, 1, 1), or without a reduction per element.",
             [](const Arguments& arguments) {
               return std::make_shared<Self>(to_mps_device(arguments["device"]),
                                             arguments.get<CNNLossDescriptor>("loss_descriptor"));
             });
  def_descriptor(cls);
  const std::string sources =
      "command_buffer: MTLCommandBuffer, source_images: collections.abc.Sequence[MPSImage], "
      "labels: collections.abc.Sequence[MPSImage], "
      "weights: collections.abc.Sequence[MPSImage] | None = None, ";
  def_method(
      cls, "encode_batch", "typing.Any",
      {sources + "destination_images: collections.abc.Sequence[MPSImage]",
       sources + "destination_states: collections.abc.Sequence[MPSState], destination_images: "
                 "collections.abc.Sequence[MPSImage]",
       sources + "destination_states: list[MPSState], destination_state_is_temporary: bool",
       sources + "destination_state_is_temporary: bool"},
      "Labels have the predictions' size. With destination_state_is_temporary it returns new "
      "images and their states, which a given list gets.",
      [](Self& self, const Arguments& a) -> py::object {
        mps::CommandBuffer& buffer = command_buffer(a);
        const auto predictions = images(a, "source_images", true);
        const auto labels = images(a, "labels", true);
        mps::StateBatch states;
        if (a.given("destination_images")) {
          if (a.given("destination_states")) states = a.get<mps::StateBatch>("destination_states");
          self.encode_batch(buffer, predictions, labels, weights_of(a), states,
                            images(a, "destination_images", true));
          return py::none();
        }
        const py::object list = list_of_states(a, true);
        const auto results = self.encode_batch(buffer, predictions, labels, weights_of(a), states,
                                               a.get<bool>("destination_state_is_temporary"));
        return with_states(results, states, list, true);
      });
}

void bind_loss_gradient(py::module_& module) {
  using Self = NNLossGradient;
  auto cls = BoundClass<Self, mps::CNNBinaryKernel, std::shared_ptr<Self>>(
      module, "MPSNNLossGradient",
      "The loss's derivative times the gradient that comes in, by predictions or by labels.");
  def_kernel(cls, {kForm}, "The forward kernel's descriptor.", [](const Arguments& arguments) {
    return std::make_shared<Self>(to_mps_device(arguments["device"]),
                                  arguments.get<CNNLossDescriptor>("loss_descriptor"));
  });
  def_descriptor(cls);
  cls.def_property("compute_label_gradients", &Self::compute_label_gradients,
                   &Self::set_compute_label_gradients,
                   "Whether the gradient is by the labels rather than by the predictions.");
  cls.def_property(
      "header_formula", &Self::header_formula, &Self::set_header_formula,
      "Whether Apple's text is computed in place of the derivative, for comparison: softmax - t, "
      "Huber's delta without its sign, -t / y of Kullback and Leibler. By labels it "
      "is exact. An addition of traingraph. Errors: losses whose printed gradient is their "
      "derivative.");
  const std::string sources =
      "command_buffer: MTLCommandBuffer, source_gradients: collections.abc.Sequence[MPSImage], "
      "source_images: "
      "collections.abc.Sequence[MPSImage], labels: collections.abc.Sequence[MPSImage], weights: "
      "collections.abc.Sequence[MPSImage] | None = None, "
      "source_states: collections.abc.Sequence[MPSState] | None = None";
  def_method(cls, "encode_batch", "collections.abc.Sequence[MPSImage] | None",
             {sources, sources + ", destination_gradients: collections.abc.Sequence[MPSImage]"},
             "Gradients that come in have the loss's size. Gradient: the exact derivative; where "
             "Apple's text differs (Huber, Kullback-Leibler, softmax) header_formula follows it.",
             [](Self& self, const Arguments& a) -> py::object {
               mps::CommandBuffer& buffer = command_buffer(a);
               const auto gradients = images(a, "source_gradients", true);
               const auto predictions = images(a, "source_images", true);
               const auto labels = images(a, "labels", true);
               const auto states =
                   a.optional<mps::StateBatch>("source_states").value_or(mps::StateBatch{});
               if (!a.given("destination_gradients")) {
                 return py::cast(self.encode_batch(buffer, gradients, predictions, labels,
                                                   weights_of(a), states));
               }
               self.encode_batch(buffer, gradients, predictions, labels, weights_of(a), states,
                                 images(a, "destination_gradients", true));
               return py::none();
             });
}

}  // namespace

void bind_mps_forward_loss(py::module_& module) {
  bind_forward_loss(module);
  bind_loss_gradient(module);
  auto initial = BoundClass<NNInitialGradient, mps::CNNKernel, std::shared_ptr<NNInitialGradient>>(
      module, "MPSNNInitialGradient", "Ones, of the source's size: where a gradient begins.");
  def_kernel(initial, {"device: MTLDevice | MLCDevice | str"}, "Without properties.",
             [](const Arguments& arguments) {
               return std::make_shared<NNInitialGradient>(to_mps_device(arguments["device"]));
             });
}

}  // namespace traingraph::python
