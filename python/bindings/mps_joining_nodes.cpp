#include "mps_node_bindings.h"
#include "release.h"

// Nodes with several sources: arithmetic, concatenation, losses; and transposed convolution, whose
// second source is a state.
namespace traingraph::python {
namespace {

using mps::BroadcastStrides;
using mps::CNNArithmeticOperation;
using mps::CNNArithmeticParameters;
using mps::CNNLossDescriptor;
using mps::NNArithmeticGradientNode;
using mps::NNBinaryArithmeticNode;
using mps::NNFilterNode;
using mps::NNFilterNodePtr;
using mps::NNGradientFilterNode;
using mps::NNImageNodePtr;
using mps::NNStateNodePtr;

using ImageNodes = std::vector<NNImageNodePtr>;

// --- arithmetic ----------------------------------------------------------------------------------

template <typename Class>
void def_stride(Class& cls, const char* name, BroadcastStrides CNNArithmeticParameters::* source,
                std::int64_t BroadcastStrides::* axis) {
  using Self = typename Class::type;
  cls.def_property(
      name, [=](const Self& self) { return node_parameters(self).*source.*axis; },
      [=](Self& self, std::int64_t value) {
        CNNArithmeticParameters changed = node_parameters(self);
        changed.*source.*axis = value;
        if constexpr (requires { self.set_parameters(changed); }) {
          self.set_parameters(changed);
        } else {
          self.parameters = changed;
        }
      },
      "1, or 0: the source's first element stands for all along the axis.");
}

template <typename Class>
void def_node_strides(Class& cls, const std::string& which,
                      BroadcastStrides CNNArithmeticParameters::* source) {
  def_stride(cls, (which + "_stride_in_pixels_x").c_str(), source, &BroadcastStrides::x);
  def_stride(cls, (which + "_stride_in_pixels_y").c_str(), source, &BroadcastStrides::y);
  def_stride(cls, (which + "_stride_in_feature_channels").c_str(), source,
             &BroadcastStrides::feature_channels);
}

template <typename Class>
void def_numbers(Class& cls) {
  using P = CNNArithmeticParameters;
  def_parameter_member(cls, "primary_scale", &P::primary_scale, "A factor of the first source.");
  def_parameter_member(cls, "secondary_scale", &P::secondary_scale,
                       "A factor of the second source.");
  def_parameter_member(cls, "bias", &P::bias, "Added to the result; a gradient does not read it.");
  def_parameter_member(cls, "minimum_value", &P::minimum_value,
                       "The result's least value; a gradient has it of the state.");
  def_parameter_member(cls, "maximum_value", &P::maximum_value,
                       "The result's largest value; a gradient has it of the state.");
}

template <typename Forward>
auto bind_arithmetic(py::module_& module, const char* name, const char* doc) {
  auto cls = bind_node<Forward, NNBinaryArithmeticNode>(module, name, doc);
  const std::string who = name;
  def_init(cls,
           {"left_source: MPSNNImageNode, right_source: MPSNNImageNode",
            "sources: list[MPSNNImageNode]"},
           "Two sources.", [who](const Arguments& a) {
             if (a.given("left_source")) {
               return std::make_shared<Forward>(a.get<NNImageNodePtr>("left_source"),
                                                a.get<NNImageNodePtr>("right_source"));
             }
             const auto sources = a.get<ImageNodes>("sources");
             if (sources.size() != 2) {
               throw InvalidArgument("[" + who + "] expected two sources but got " +
                                     std::to_string(sources.size()));
             }
             return std::make_shared<Forward>(sources[0], sources[1]);
           });
  return cls;
}

py::object gradient_class_of(CNNArithmeticOperation operation) {
  switch (operation) {
    case CNNArithmeticOperation::kAdd:
      return py::type::of<mps::NNAdditionGradientNode>();
    case CNNArithmeticOperation::kSubtract:
      return py::type::of<mps::NNSubtractionGradientNode>();
    case CNNArithmeticOperation::kMultiply:
      return py::type::of<mps::NNMultiplicationGradientNode>();
    case CNNArithmeticOperation::kDivide:
    case CNNArithmeticOperation::kCompare:
      break;
  }
  return py::none();
}

template <typename Gradient>
std::shared_ptr<Gradient> arithmetic_gradient(const Arguments& a) {
  const bool secondary = a.get<bool>("is_secondary_source_filter");
  if (!a.given("forward_filter")) {
    return std::make_shared<Gradient>(a.get<NNImageNodePtr>("source_gradient"),
                                      a.get<NNImageNodePtr>("source_image"),
                                      a.get<NNStateNodePtr>("gradient_state"), secondary);
  }
  const auto gradients = a.get<ImageNodes>("gradient_images");
  const auto forward = a.get<NNFilterNodePtr>("forward_filter");
  if (gradients.size() == 1 && forward->sources().size() == 2) {
    return std::make_shared<Gradient>(gradients[0], forward->sources()[secondary ? 0 : 1],
                                      forward->result_state(), secondary);
  }
  throw InvalidArgument("[" + a.where("gradient_images").subject +
                        "] expected one gradient and a forward filter with two sources but got " +
                        std::to_string(gradients.size()) + " and " + forward->description());
}

template <typename Gradient>
void bind_arithmetic_gradient(py::module_& module, const char* name, const char* doc) {
  auto cls = bind_node<Gradient, NNArithmeticGradientNode>(module, name, doc);
  def_init(cls,
           {kNodeGradientForm + ", is_secondary_source_filter: bool",
            "gradient_images: list[MPSNNImageNode], forward_filter: MPSNNFilterNode, "
            "is_secondary_source_filter: bool"},
           "The source image is the other source. Errors: the state of another kind of node.",
           arithmetic_gradient<Gradient>);
}

void bind_arithmetic_nodes(py::module_& module) {
  auto forward = bind_node<NNBinaryArithmeticNode, NNFilterNode>(
      module, "MPSNNBinaryArithmeticNode", "One image of two.");
  def_numbers(forward);
  def_node_strides(forward, "primary", &CNNArithmeticParameters::primary_strides);
  def_node_strides(forward, "secondary", &CNNArithmeticParameters::secondary_strides);
  forward.def(
      "gradient_class",
      [](const NNBinaryArithmeticNode& self) { return gradient_class_of(self.operation()); },
      "The class of its gradient nodes, or None.");
  auto gradient = bind_node<NNArithmeticGradientNode, NNGradientFilterNode>(
      module, "MPSNNArithmeticGradientNode",
      "The gradient of one of two sources. Scales and strides are the forward node's, the own "
      "source's first, until they are set.");
  def_numbers(gradient);
  def_node_strides(gradient, "secondary", &CNNArithmeticParameters::secondary_strides);
  gradient.def_property_readonly("is_secondary_source_filter",
                                 &NNArithmeticGradientNode::is_secondary_source_filter,
                                 "Whether it belongs to the right source.");
  bind_arithmetic_gradient<mps::NNAdditionGradientNode>(module, "MPSNNAdditionGradientNode",
                                                        "The incoming gradient itself.");
  bind_arithmetic_gradient<mps::NNSubtractionGradientNode>(
      module, "MPSNNSubtractionGradientNode", "The incoming gradient, or less than nothing of it.");
  bind_arithmetic_gradient<mps::NNMultiplicationGradientNode>(
      module, "MPSNNMultiplicationGradientNode", "The incoming gradient times the other source.");
  bind_arithmetic<mps::NNAdditionNode>(module, "MPSNNAdditionNode", "Left plus right.");
  bind_arithmetic<mps::NNSubtractionNode>(module, "MPSNNSubtractionNode", "Left minus right.");
  bind_arithmetic<mps::NNMultiplicationNode>(module, "MPSNNMultiplicationNode",
                                             "Left times right.");
  bind_arithmetic<mps::NNDivisionNode>(module, "MPSNNDivisionNode",
                                       "Left over right; it has no gradient.");
  auto comparison = bind_arithmetic<mps::NNComparisonNode>(
      module, "MPSNNComparisonNode",
      "1 where a comparison of left and right holds, else 0; it has no gradient.");
  def_parameter_member(comparison, "comparison_type", &CNNArithmeticParameters::comparison,
                       "What is asked; EQUAL at the beginning.");
}

void bind_concatenation_nodes(py::module_& module) {
  using Node = mps::NNConcatenationNode;
  auto cls = bind_node<Node, NNFilterNode>(module, "MPSNNConcatenationNode",
                                           "The sources' channels one after another.");
  def_init(cls, {"sources: list[MPSNNImageNode]"}, "Images alike but for their channels.",
           [](const Arguments& a) { return std::make_shared<Node>(a.get<ImageNodes>("sources")); });
  bind_gradient_node<mps::NNConcatenationGradientNode>(
      module, "MPSNNConcatenationGradientNode",
      "The channels of the source whose state, of result_states, it has.");
}

// --- losses --------------------------------------------------------------------------------------

template <typename Class>
void def_loss(Class& cls) {
  using Self = typename Class::type;
  using D = CNNLossDescriptor;
  const auto add = [&cls](const char* name, auto member, const char* doc) {
    cls.def_property_readonly(
        name, [member](const Self& self) { return self.descriptor().*member; }, doc);
  };
  add("loss_type", &D::loss_type, "The function.");
  add("reduction_type", &D::reduction_type, "What joins the values.");
  add("number_of_classes", &D::number_of_classes, "For label smoothing.");
  add("reduce_across_batch", &D::reduce_across_batch, "Whether images are joined.");
  add("weight", &D::weight, "A factor of every value.");
  add("label_smoothing", &D::label_smoothing, "From 0 to below 1.");
  add("epsilon", &D::epsilon, "Inside of LOG's logarithms.");
  add("delta", &D::delta, "HUBER's.");
  const auto owner = py::cast<std::string>(cls.attr("__name__"));
  cls.def_property(
      "property_call_back",
      [](const Self& self) { return from_number_callback(self.property_callback); },
      [owner](Self& self, const py::object& value) {
        set_number_callback(
            self.property_callback, value,
            {owner, "property_call_back",
             "an object with scalar_weight(for_source_image, destination_image), or None"},
            "scalar_weight");
      },
      "Gives the weight at each encoding; another one than before compiles anew. A gradient node "
      "without one has its forward node's.");
}

const std::string kLossImages =
    "source_image: MPSNNImageNode, labels: MPSNNImageNode, weights: MPSNNImageNode | None = None";

// "sources", or the images by name.
ImageNodes loss_images(const Arguments& a, const std::vector<const char*>& names) {
  if (a.given("sources")) return a.get<ImageNodes>("sources");
  ImageNodes images;
  for (const char* name : names) images.push_back(a.get<NNImageNodePtr>(name));
  if (auto weights = a.nullable<NNImageNodePtr>("weights")) images.push_back(weights);
  return images;
}

void bind_loss_nodes(py::module_& module) {
  using Forward = mps::NNForwardLossNode;
  auto forward = bind_node<Forward, NNFilterNode>(
      module, "MPSNNForwardLossNode",
      "The loss as an image; gradient_filters gives the gradients by source and by labels.");
  def_init(forward,
           {kNodeSource + ", labels: MPSNNImageNode, weights: MPSNNImageNode | None = None, "
                          "loss_descriptor: MPSCNNLossDescriptor",
            "sources: list[MPSNNImageNode], loss_descriptor: MPSCNNLossDescriptor"},
           "Sources: predictions, labels and perhaps weights.", [](const Arguments& a) {
             return std::make_shared<Forward>(loss_images(a, {"source", "labels"}),
                                              a.get<CNNLossDescriptor>("loss_descriptor"));
           });
  def_loss(forward);
  using Gradient = mps::NNLossGradientNode;
  auto gradient = bind_node<Gradient, NNGradientFilterNode>(
      module, "MPSNNLossGradientNode",
      "The loss's derivative times the gradient that comes in, by predictions or by labels.");
  const std::string rest =
      "gradient_state: MPSNNStateNode | None, loss_descriptor: MPSCNNLossDescriptor, "
      "is_labels_gradient_filter: bool";
  def_init(gradient,
           {"source_gradient: MPSNNImageNode, " + kLossImages + ", " + rest,
            "sources: list[MPSNNImageNode], " + rest},
           "Sources: the gradient, predictions, labels and perhaps weights. Errors: another "
           "descriptor than that of the state's node.",
           [](const Arguments& a) {
             return std::make_shared<Gradient>(
                 loss_images(a, {"source_gradient", "source_image", "labels"}),
                 a.nullable<NNStateNodePtr>("gradient_state"),
                 a.get<CNNLossDescriptor>("loss_descriptor"),
                 a.get<bool>("is_labels_gradient_filter"));
           });
  def_loss(gradient);
  gradient.def_property_readonly("is_labels_gradient_filter", &Gradient::is_labels_gradient_filter,
                                 "Whether it is by the labels.");
  using Initial = mps::NNInitialGradientNode;
  auto initial = bind_node<Initial, NNFilterNode>(
      module, "MPSNNInitialGradientNode",
      "Ones, of the source's size; its training_graph goes back from the source.");
  def_init(initial, {kNodeSource}, "Behind the node that is differentiated.",
           [](const Arguments& a) { return std::make_shared<Initial>(source_node(a)); });
}

// --- transposed convolution ----------------------------------------------------------------------

void bind_transpose_nodes(py::module_& module) {
  using Node = mps::CNNConvolutionTransposeNode;
  auto cls = bind_node<Node, mps::CNNConvolutionNode>(module, "MPSCNNConvolutionTransposeNode",
                                                      "MPSCNNConvolutionTranspose in a graph.");
  def_init(cls,
           {kNodeSource + ", convolution_gradient_state: MPSNNStateNode | None = None, weights: "
                          "typing.Any"},
           "Mirrors the convolution of that state, or one with the padding policy.",
           [](const Arguments& a) {
             return std::make_shared<Node>(source_node(a),
                                           a.nullable<NNStateNodePtr>("convolution_gradient_state"),
                                           to_convolution_source(a["weights"]));
           });
  cls.def_property_readonly(
      "convolution_gradient_state",
      [](const Node& self) -> py::object {
        throw Unsupported("[" + self.description() +
                          "] convolution_gradient_state: use result_state");
      },
      "Errors: always; result_state is what the gradient node needs.");
  using Gradient = mps::CNNConvolutionTransposeGradientNode;
  auto gradient = bind_node<Gradient, mps::CNNConvolutionGradientNode>(
      module, "MPSCNNConvolutionTransposeGradientNode",
      "Gradients by data and weights; calls the data source for an update.");
  const char* const state = "convolution_transpose_gradient_state";
  def_init(gradient,
           {kNodeGradientSources + state + ": MPSNNStateNode, weights: typing.Any = None"},
           "Without weights: the forward node's. Errors: the state of another kind of node.",
           [state](const Arguments& a) {
             return std::make_shared<Gradient>(
                 a.get<NNImageNodePtr>("source_gradient"), a.get<NNImageNodePtr>("source_image"),
                 a.get<NNStateNodePtr>(state), nullable_convolution_source(a["weights"]));
           });
}

}  // namespace

void set_number_callback(mps::NNNumberCallback& callback, const py::object& value,
                         const Where& where, const char* method) {
  if (value.is_none()) {
    callback = {};
    return;
  }
  if (!py::hasattr(value, method)) refuse(where, value);
  callback.object = share(value);
  callback.call = [kept = std::weak_ptr(callback.object), where, method](
                      const mps::ImagePtr& source, const mps::ImagePtr& destination) {
    const HeldGil held;
    return static_cast<float>(
        to_number(shared_object(kept.lock()).attr(method)(source, destination),
                  {where.subject + "." + where.name, "result", "float"}));
  };
}

py::object from_number_callback(const mps::NNNumberCallback& callback) {
  if (callback.object == nullptr) return py::none();
  return shared_object(callback.object);
}

void bind_mps_joining_nodes(py::module_& module) {
  bind_arithmetic_nodes(module);
  bind_concatenation_nodes(module);
  bind_loss_nodes(module);
  bind_transpose_nodes(module);
}

}  // namespace traingraph::python
