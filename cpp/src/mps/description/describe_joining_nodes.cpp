// Nodes with several sources: arithmetic, concatenation and losses.
#include <traingraph/errors.h>
#include <traingraph/mps/arithmetic_nodes.h>
#include <traingraph/mps/filter_nodes.h>
#include <traingraph/mps/loss_nodes.h>

#include "mps/description/describe_nodes.h"

namespace traingraph::mps {
namespace {

using ImageNodes = std::vector<NNImageNodePtr>;
using Operation = CNNArithmeticOperation;

Argument sources_argument(const char* text) { return argument<ImageNodes>("sources", text); }

// --- arithmetic ----------------------------------------------------------------------------------

template <class T, class Parent>
void describe_numbers(DescribingNode<T, Parent>& described) {
  using P = CNNArithmeticParameters;
  settable_parameter(described, "primary_scale", &P::primary_scale,
                     "A factor of the first source.");
  settable_parameter(described, "secondary_scale", &P::secondary_scale,
                     "A factor of the second source.");
  settable_parameter(described, "bias", &P::bias,
                     "Added to the result; a gradient does not read it.");
  settable_parameter(described, "minimum_value", &P::minimum_value,
                     "The result's least value; a gradient has it of the state.");
  settable_parameter(described, "maximum_value", &P::maximum_value,
                     "The result's largest value; a gradient has it of the state.");
}

template <class T, class Parent>
void describe_strides(DescribingNode<T, Parent>& described, const std::string& which,
                      BroadcastStrides CNNArithmeticParameters::* source) {
  const auto add = [&](const char* name, std::int64_t BroadcastStrides::* axis) {
    settable_parameter(
        described, which + name, [=](auto& p) -> auto& { return p.*source.*axis; },
        "1, or 0: the source's first element stands for all along the axis.");
  };
  add("_stride_in_pixels_x", &BroadcastStrides::x);
  add("_stride_in_pixels_y", &BroadcastStrides::y);
  add("_stride_in_feature_channels", &BroadcastStrides::feature_channels);
}

DescribingNode<NNBinaryArithmeticNode, NNBinaryArithmeticNode> arithmetic(Operation operation,
                                                                          const char* summary) {
  using Node = NNBinaryArithmeticNode;
  const std::string name = kArithmeticNames[static_cast<int>(operation)].forward;
  DescribingNode<Node, Node> described(name, summary);
  described
      .takes({argument<NNImageNodePtr>("left_source", "The first image."),
              argument<NNImageNodePtr>("right_source", "The second image.")})
      .made_by("Two sources.",
               [operation](const Given& given) {
                 return std::make_shared<Node>(given.get<NNImageNodePtr>("left_source"),
                                               given.get<NNImageNodePtr>("right_source"),
                                               operation);
               })
      .form({sources_argument("Both images.")}, [operation, name](const Given& given) {
        const auto sources = given.get<ImageNodes>("sources");
        if (sources.size() != 2) {
          throw InvalidArgument("[" + name + "] expected two sources but got " +
                                std::to_string(sources.size()));
        }
        return std::make_shared<Node>(sources[0], sources[1], operation);
      });
  return described;
}

ClassDescription arithmetic_gradient(Operation operation, const char* summary) {
  using Node = NNArithmeticGradientNode;
  const std::string name = kArithmeticNames[static_cast<int>(operation)].gradient;
  const Argument secondary =
      argument<bool>("is_secondary_source_filter", "Whether it belongs to the right source.");
  return DescribingNode<Node, Node>(name, summary)
      .takes(gradient_arguments())
      .takes({secondary})
      .made_by("The source image is the other source. Errors: the state of another kind of node.",
               [operation](const Given& given) {
                 return std::make_shared<Node>(given.get<NNImageNodePtr>("source_gradient"),
                                               given.get<NNImageNodePtr>("source_image"),
                                               given.get<NNStateNodePtr>("gradient_state"),
                                               given.get<bool>("is_secondary_source_filter"),
                                               operation);
               })
      .form({argument<ImageNodes>("gradient_images", "The one gradient of its result."),
             argument<NNFilterNodePtr>("forward_filter", "The node whose gradient it is."),
             secondary},
            [operation, name](const Given& given) {
              const auto gradients = given.get<ImageNodes>("gradient_images");
              const auto forward = given.get<NNFilterNodePtr>("forward_filter");
              const bool is_secondary = given.get<bool>("is_secondary_source_filter");
              if (gradients.size() == 1 && forward->sources().size() == 2) {
                return std::make_shared<Node>(gradients[0],
                                              forward->sources()[is_secondary ? 0 : 1],
                                              forward->result_state(), is_secondary, operation);
              }
              throw InvalidArgument(
                  "[" + name +
                  "] expected one gradient and a forward filter with two sources but got " +
                  std::to_string(gradients.size()) + " and " + forward->description());
            });
}

void describe_arithmetic_nodes(Classes& classes) {
  using P = CNNArithmeticParameters;
  DescribingNode<NNBinaryArithmeticNode> forward("MPSNNBinaryArithmeticNode", "One image of two.");
  describe_numbers(forward);
  describe_strides(forward, "primary", &P::primary_strides);
  describe_strides(forward, "secondary", &P::secondary_strides);
  using Gradient = NNArithmeticGradientNode;
  DescribingNode<Gradient, NNGradientFilterNode> gradient(
      "MPSNNArithmeticGradientNode",
      "The gradient of one of two sources. Scales and strides are the forward node's, the own "
      "source's first, until they are set.");
  describe_numbers(gradient);
  describe_strides(gradient, "secondary", &P::secondary_strides);
  gradient.property("is_secondary_source_filter", &Gradient::is_secondary_source_filter,
                    "Whether it belongs to the right source.");
  auto comparison =
      arithmetic(Operation::kCompare,
                 "1 where a comparison of left and right holds, else 0; it has no gradient.");
  settable_parameter(comparison, "comparison_type", &P::comparison,
                     "The comparison; EQUAL at the beginning.");
  classes.insert(
      classes.end(),
      {forward, gradient, arithmetic(Operation::kAdd, "Left plus right."),
       arithmetic(Operation::kSubtract, "Left minus right."),
       arithmetic(Operation::kMultiply, "Left times right."),
       arithmetic(Operation::kDivide, "Left over right; it has no gradient."), comparison,
       arithmetic_gradient(Operation::kAdd, "The incoming gradient itself."),
       arithmetic_gradient(Operation::kSubtract,
                           "The incoming gradient; of the right source, negated."),
       arithmetic_gradient(Operation::kMultiply, "The incoming gradient times the other source.")});
}

// --- losses --------------------------------------------------------------------------------------

template <class T, class Parent>
void describe_loss(DescribingNode<T, Parent>& described) {
  using D = CNNLossDescriptor;
  const auto add = [&](const char* name, auto member, const char* text) {
    described.property(name, [member](const T& node) { return node.descriptor().*member; }, text);
  };
  add("loss_type", &D::loss_type, "The function.");
  add("reduction_type", &D::reduction_type, "The reduction of the values.");
  add("number_of_classes", &D::number_of_classes, "For label smoothing.");
  add("reduce_across_batch", &D::reduce_across_batch, "Whether images are joined.");
  add("weight", &D::weight, "A factor of every value.");
  add("label_smoothing", &D::label_smoothing, "From 0 to below 1.");
  add("epsilon", &D::epsilon, "Inside of LOG's logarithms.");
  add("delta", &D::delta, "HUBER's.");
}

// These images and perhaps weights.
ImageNodes loss_images(const Given& given, const std::vector<const char*>& names) {
  ImageNodes images;
  for (const char* name : names) images.push_back(given.get<NNImageNodePtr>(name));
  if (auto weights = given.get<NNImageNodePtr>("weights")) images.push_back(weights);
  return images;
}

void describe_loss_nodes(Classes& classes) {
  const std::vector<Argument> operands = {
      argument<NNImageNodePtr>("labels", "The labels, of the predictions' size."),
      optional_argument<NNImageNodePtr>("weights", "A factor for each value.")};
  const Argument descriptor = argument<CNNLossDescriptor>("loss_descriptor", "The function.");
  using Forward = NNForwardLossNode;
  const auto make_forward = [](ImageNodes sources, const Given& given) {
    return std::make_shared<Forward>(std::move(sources),
                                     given.get<CNNLossDescriptor>("loss_descriptor"));
  };
  DescribingNode<Forward> forward(
      "MPSNNForwardLossNode",
      "The loss as an image; gradient_filters gives the gradients by source and by labels.");
  forward.takes({source_argument()})
      .takes(operands)
      .takes({descriptor})
      .made_by("Sources: predictions, labels and perhaps weights.",
               [=](const Given& given) {
                 return make_forward(loss_images(given, {"source", "labels"}), given);
               })
      .form({sources_argument("Predictions, labels and perhaps weights."), descriptor},
            [=](const Given& given) {
              return make_forward(given.get<ImageNodes>("sources"), given);
            });
  describe_loss(forward);

  Argument state = argument<NNStateNodePtr>("gradient_state", "The forward node's, or None.");
  state.type.optional = true;
  const Argument by_labels =
      argument<bool>("is_labels_gradient_filter", "Whether it is by the labels.");
  using Gradient = NNLossGradientNode;
  const auto make_gradient = [](ImageNodes sources, const Given& given) {
    return std::make_shared<Gradient>(std::move(sources),
                                      given.get<NNStateNodePtr>("gradient_state"),
                                      given.get<CNNLossDescriptor>("loss_descriptor"),
                                      given.get<bool>("is_labels_gradient_filter"));
  };
  DescribingNode<Gradient, NNGradientFilterNode> gradient(
      "MPSNNLossGradientNode",
      "The loss's derivative times the gradient that comes in, by predictions or by labels.");
  gradient
      .takes({argument<NNImageNodePtr>("source_gradient", "The incoming gradient."),
              argument<NNImageNodePtr>("source_image", "The predictions.")})
      .takes(operands)
      .takes({state, descriptor, by_labels})
      .made_by(
          "Sources: the gradient, predictions, labels and perhaps weights. Errors: another "
          "descriptor than that of the state's node.",
          [=](const Given& given) {
            return make_gradient(loss_images(given, {"source_gradient", "source_image", "labels"}),
                                 given);
          })
      .form({sources_argument("The gradient, predictions, labels and perhaps weights."), state,
             descriptor, by_labels},
            [=](const Given& given) {
              return make_gradient(given.get<ImageNodes>("sources"), given);
            });
  describe_loss(gradient);
  gradient.property("is_labels_gradient_filter", &Gradient::is_labels_gradient_filter,
                    "Whether it is by the labels.");
  classes.insert(classes.end(),
                 {forward, gradient,
                  DescribingNode<NNInitialGradientNode>(
                      "MPSNNInitialGradientNode",
                      "Ones, of the source's size; its training_graph goes back from the source.")
                      .takes({source_argument()})
                      .made_of<NNImageNodePtr>("Behind the node that is differentiated."),
                  DescribingNode<CNNLossNode>("MPSCNNLossNode",
                                              "A loss; its result is the gradient of its source.")
                      .takes({source_argument(), descriptor})
                      .made_of<NNImageNodePtr, CNNLossDescriptor>("The loss goes into the labels.")
                      .property("input_labels", &CNNLossNode::input_labels,
                                "The node of the MPSCNNLossLabels that encodings are given.")});
}

}  // namespace

void describe_joining_nodes(Classes& classes) {
  describe_arithmetic_nodes(classes);
  classes.push_back(
      DescribingNode<NNConcatenationNode>("MPSNNConcatenationNode",
                                          "The sources' channels one after another.")
          .takes({sources_argument("Images alike but for their channels.")})
          .settable("packs_channels", &NNConcatenationNode::packs_channels,
                    "Whether a source begins where the one before it ends, rather than at the next "
                    "multiple of four channels. An addition of traingraph.")
          .made_of<ImageNodes>("Each source takes a multiple of four channels, zeros behind its "
                               "own: 23 channels take 24. Its gradient is its own channels'."));
  classes.push_back(gradient_node<NNConcatenationGradientNode>(
      "MPSNNConcatenationGradientNode",
      "The channels of the source whose state, of result_states, it has."));
  describe_loss_nodes(classes);
}

}  // namespace traingraph::mps
