#include "mps_bindings.h"
#include "mps_coding.h"
#include "mps_encoding.h"

namespace traingraph::python {
namespace {

using mps::BroadcastStrides;
using mps::CNNArithmetic;
using mps::CNNArithmeticGradient;
using mps::CNNArithmeticGradientState;
using mps::CNNArithmeticOperation;
using mps::CNNArithmeticParameters;
using mps::CNNBinaryKernel;
using mps::StatePtr;

// One Python class each for what is one class of the core with an operation.
template <CNNArithmeticOperation kOperation>
struct ArithmeticOf final : CNNArithmetic {
  using Core = CNNArithmetic;
  explicit ArithmeticOf(const Core& core) : Core(core) {}
  explicit ArithmeticOf(const mps::Device& device) : CNNArithmetic(device, kOperation) {}
};
template <CNNArithmeticOperation kOperation>
struct ArithmeticGradientOf final : CNNArithmeticGradient {
  using Core = CNNArithmeticGradient;
  explicit ArithmeticGradientOf(const Core& core) : Core(core) {}
  ArithmeticGradientOf(const mps::Device& device, bool is_secondary_source_filter)
      : CNNArithmeticGradient(device, kOperation, is_secondary_source_filter) {}
};

py::object encode_binary(CNNBinaryKernel& self, const Arguments& arguments, bool batch) {
  mps::CommandBuffer& buffer = command_buffer(arguments);
  const auto primaries = images(arguments, batch ? "primary_images" : "primary_image", batch);
  const auto secondaries = images(arguments, batch ? "secondary_images" : "secondary_image", batch);
  const char* const destination = batch ? "destination_images" : "destination_image";
  mps::StateBatch states;
  if (arguments.given(destination)) {
    const char* const name = batch ? "destination_states" : "destination_state";
    if (arguments.given(name)) {
      states = batch ? arguments.get<mps::StateBatch>(name)
                     : mps::StateBatch{arguments.get<StatePtr>(name)};
    }
    self.encode_batch(buffer, primaries, secondaries, states,
                      images(arguments, destination, batch));
    return py::none();
  }
  if (!arguments.given("destination_state_is_temporary")) {
    return result_images(self.encode_batch(buffer, primaries, secondaries), batch);
  }
  const py::object list = list_of_states(arguments, batch);
  const bool temporary = arguments.get<bool>("destination_state_is_temporary");
  const auto results = self.encode_batch(buffer, primaries, secondaries, states, temporary);
  return with_states(results, states, list, batch);
}

py::object result_states(const CNNBinaryKernel& self, const Arguments& arguments, bool batch,
                         bool temporary) {
  const char* const primary =
      arguments.given("for_primary_image") ? "for_primary_image" : "primary_image";
  const mps::CommandBuffer* on = temporary ? &command_buffer(arguments) : nullptr;
  const mps::StateBatch states = self.result_state_batch(
      images(arguments, primary, batch), images(arguments, "secondary_image", batch), on);
  return batch ? py::cast(states) : py::cast(states[0]);
}

// The forms of encode() and encode_batch(), with the names of one image or of several.
std::vector<std::string> encode_forms(bool batch) {
  const std::string end = batch ? "s" : "";
  const std::string image = batch ? "collections.abc.Sequence[MPSImage]" : "MPSImage";
  const std::string state = batch ? "collections.abc.Sequence[MPSState]" : "MPSState";
  const std::string sources = "command_buffer: MTLCommandBuffer, primary_image" + end + ": " +
                              image + ", secondary_image" + end + ": " + image;
  return {sources + ", destination_image" + end + ": " + image,
          sources + ", destination_state" + end + ": " + state + ", destination_image" + end +
              ": " + image,
          sources,
          sources + ", destination_state" + end +
              ": list[MPSState], destination_state_is_temporary: bool",
          sources + ", destination_state_is_temporary: bool"};
}

void bind_binary(py::module_& module) {
  using Self = CNNBinaryKernel;
  auto cls = described<Self>(module, "MPSCNNBinaryKernel");
  cls.def("is_result_state_reused_across_batch", &Self::is_result_state_reused_across_batch,
          "Whether one state serves all images of a batch.");
  cls.def("append_batch_barrier", &Self::append_batch_barrier,
          "Whether the whole batch must be done before anybody reads a result.");
  def_method(cls, "encode", "typing.Any", encode_forms(false),
             "Encodes one pair. Without a destination it returns a new image; with "
             "destination_state_is_temporary the image and its state, which a given list gets.",
             [](Self& self, const Arguments& a) { return encode_binary(self, a, false); });
  def_method(cls, "encode_batch", "typing.Any", encode_forms(true),
             "Encodes as many pairs as there are images.",
             [](Self& self, const Arguments& a) { return encode_binary(self, a, true); });
  const std::string one =
      "for_primary_image: MPSImage, secondary_image: MPSImage, source_states: "
      "collections.abc.Sequence[MPSState] | "
      "None = None, destination_image: MPSImage | None = None";
  const std::string several =
      "for_primary_image: collections.abc.Sequence[MPSImage], secondary_image: "
      "collections.abc.Sequence[MPSImage], source_states: "
      "list[collections.abc.Sequence[MPSState]] | None = None, destination_image: "
      "collections.abc.Sequence[MPSImage] | None = None";
  const std::string on = "command_buffer: MTLCommandBuffer, ";
  def_method(cls, "result_state", "MPSState", {one}, "A new permanent state.",
             [](Self& self, const Arguments& a) { return result_states(self, a, false, false); });
  def_method(cls, "result_state_batch", "collections.abc.Sequence[MPSState]", {several},
             "New permanent states.",
             [](Self& self, const Arguments& a) { return result_states(self, a, true, false); });
  def_method(cls, "temporary_result_state", "MPSState", {on + one.substr(4)},
             "A new state that lives on the command buffer, with a read count of 1.",
             [](Self& self, const Arguments& a) { return result_states(self, a, false, true); });
  def_method(cls, "temporary_result_state_batch", "collections.abc.Sequence[MPSState]",
             {on + several.substr(4)},
             "New states that live on the command buffer, each with a read count of 1.",
             [](Self& self, const Arguments& a) { return result_states(self, a, true, true); });
  def_method(cls, "destination_image_descriptor", "MPSImageDescriptor",
             {"for_source_images: collections.abc.Sequence[MPSImage], source_states: "
              "collections.abc.Sequence[MPSState] | None = None"},
             "The size of a result.", [](Self& self, const Arguments& a) {
               const auto sources = a.get<mps::ImageBatch>("for_source_images");
               if (sources.size() != 2) {
                 throw InvalidArgument("[MPSCNNBinaryKernel] expected two source images but got " +
                                       std::to_string(sources.size()));
               }
               return self.destination_image_descriptor(sources[0]->descriptor(),
                                                        sources[1]->descriptor());
             });
}

template <typename Class, typename T>
void def_parameter(Class& cls, const char* name, T CNNArithmeticParameters::* member,
                   const char* doc) {
  using Self = typename Class::type;
  cls.def_property(
      name, [member](const Self& self) { return self.parameters().*member; },
      [member](Self& self, T value) {
        CNNArithmeticParameters changed = self.parameters();
        changed.*member = value;
        self.set_parameters(changed);
      },
      doc);
}

template <typename Class>
void def_strides(Class& cls, const std::string& prefix,
                 BroadcastStrides CNNArithmeticParameters::* strides) {
  using Self = typename Class::type;
  const auto add = [&](const char* name, std::int64_t BroadcastStrides::* member) {
    cls.def_property((prefix + name).c_str(),
                     [=](const Self& self) { return self.parameters().*strides.*member; },
                     [=](Self& self, std::int64_t value) {
                       CNNArithmeticParameters changed = self.parameters();
                       changed.*strides.*member = value;
                       self.set_parameters(changed);
                     },
                     "1, or 0: one element, the first or that of the offset, stands for all.");
  };
  add("_stride_in_pixels_x", &BroadcastStrides::x);
  add("_stride_in_pixels_y", &BroadcastStrides::y);
  add("_stride_in_feature_channels", &BroadcastStrides::feature_channels);
}

template <typename Class>
void def_parameters(Class& cls) {
  using P = CNNArithmeticParameters;
  def_parameter(cls, "primary_scale", &P::primary_scale, "A factor of the primary image.");
  def_parameter(cls, "secondary_scale", &P::secondary_scale, "A factor of the secondary image.");
  def_parameter(cls, "bias", &P::bias, "Added to the result; a gradient kernel ignores it.");
  def_parameter(cls, "minimum_value", &P::minimum_value,
                "The least result; a gradient kernel takes its state's mask instead.");
  def_parameter(cls, "maximum_value", &P::maximum_value,
                "The largest result; a gradient kernel takes its state's mask instead.");
  def_strides(cls, "secondary", &P::secondary_strides);
}

template <CNNArithmeticOperation kOperation>
auto bind_operation(py::module_& module, const std::string& name, const char* doc) {
  using Forward = ArithmeticOf<kOperation>;
  auto forward =
      BoundClass<Forward, CNNArithmetic, std::shared_ptr<Forward>>(module, name.c_str(), doc);
  def_kernel(forward, {"device: MTLDevice | MLCDevice | str"},
             "Shapes: two of one size, or strides of 0 where the first element stands for all.",
             [](const Arguments& arguments) {
               return std::make_shared<Forward>(to_mps_device(arguments["device"]));
             });
  if constexpr (kOperation < CNNArithmeticOperation::kDivide) {
    using Gradient = ArithmeticGradientOf<kOperation>;
    auto gradient = BoundClass<Gradient, CNNArithmeticGradient, std::shared_ptr<Gradient>>(
        module, (name + "Gradient").c_str(), "The gradient of one of the two sources.");
    def_kernel(
        gradient, {"device: MTLDevice | MLCDevice | str, is_secondary_source_filter: bool"},
        "The source image is the other one of the two. With a destination the scales stay as "
        "they are: the gradient of a subtrahend then needs primary_scale = -1.",
        [](const Arguments& arguments) {
          return std::make_shared<Gradient>(to_mps_device(arguments["device"]),
                                            arguments.get<bool>("is_secondary_source_filter"));
        });
  }
  return forward;
}

void bind_arithmetic_kernels(py::module_& module) {
  using Binary = mps::NNBinaryGradientState;
  BoundClass<Binary, mps::GradientState, std::shared_ptr<Binary>>(
      module, "MPSNNBinaryGradientState",
      "What a gradient kernel needs to know of a forward one with two sources.");
  BoundClass<CNNArithmeticGradientState, Binary, std::shared_ptr<CNNArithmeticGradientState>>(
      module, "MPSCNNArithmeticGradientState",
      "Sizes, scales and strides of one pair, and where the result was not clamped.");
  auto forward = BoundClass<CNNArithmetic, CNNBinaryKernel, std::shared_ptr<CNNArithmetic>>(
      module, "MPSCNNArithmetic",
      "clamp((primary_scale a) op (secondary_scale b) + bias, minimum_value, maximum_value).");
  def_parameters(forward);
  def_strides(forward, "primary", &CNNArithmeticParameters::primary_strides);
  auto gradient = BoundClass<CNNArithmeticGradient, mps::CNNGradientKernel,
                             std::shared_ptr<CNNArithmeticGradient>>(
      module, "MPSCNNArithmeticGradient",
      "Sums over every axis along which the source was broadcast; nothing flows where the result "
      "was clamped.");
  def_parameters(gradient);
  gradient.def_property_readonly("is_secondary_source_filter",
                                 &CNNArithmeticGradient::is_secondary_source_filter,
                                 "Whether it is the gradient of the secondary image.");
  bind_operation<CNNArithmeticOperation::kAdd>(module, "MPSCNNAdd", "The sum.");
  bind_operation<CNNArithmeticOperation::kSubtract>(module, "MPSCNNSubtract", "The difference.");
  bind_operation<CNNArithmeticOperation::kMultiply>(module, "MPSCNNMultiply", "The product.");
  bind_operation<CNNArithmeticOperation::kDivide>(module, "MPSCNNDivide",
                                                  "The quotient; it has no gradient kernel.");
  auto compare = bind_operation<CNNArithmeticOperation::kCompare>(
      module, "MPSNNCompare",
      "1 where a comparison holds, else 0, in place of the operator; it has no gradient kernel.");
  def_parameter(compare, "comparison_type", &CNNArithmeticParameters::comparison,
                "What is asked of primary and secondary image; EQUAL at the beginning.");
  def_parameter(compare, "threshold", &CNNArithmeticParameters::threshold,
                "The largest difference of what counts as equal, and as neither less nor greater.");
}

}  // namespace

void bind_mps_arithmetic(py::module_& module) {
  bind_binary(module);
  bind_arithmetic_kernels(module);
}

}  // namespace traingraph::python
