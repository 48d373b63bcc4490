// Images and states between nodes, and the bases of nodes.
#include "mps/description/describe_nodes.h"

#include <traingraph/mps/classes.h>

namespace traingraph::mps {
namespace {

template <class T, class D>
void describe_handle(D& described) {
  described
      .settable("handle", &T::handle, "The program's name for it: text, or an object with label().")
      .settable("export_from_graph", &T::export_from_graph, "Whether an encoding hands it out.")
      .settable("synchronize_resource", &T::synchronize_resource,
                "Whether the host reads it after the run. Reading waits for the device here in any "
                "case.");
}

ClassDescription image_node() {
  using Node = NNImageNode;
  Describing<Node, Node> described("MPSNNImageNode",
                                   "A place of an image: a graph's source, or what a node makes.");
  described
      .takes({argument<HandlePtr>("handle", nullptr,
                                  "The program's name for it: text, an object with label(), or "
                                  "None.")})
      .made_of<HandlePtr>("A source of a graph.")
      .factory("exported_node", "One that an encoding hands out.",
               {{argument<HandlePtr>("with_handle", "The program's name for it.")}},
               [](const Given& given) {
                 auto node = std::make_shared<Node>(given.get<HandlePtr>("with_handle"));
                 node->export_from_graph = true;
                 return node;
               });
  describe_handle<Node>(described);
  described.settable("format", &Node::format, "The format of its elements; NONE: the graph's.")
      .settable("stop_gradient", &Node::stop_gradient, "Whether a training graph ends here.")
      .settable(
          "image_allocator", &Node::image_allocator, &Node::set_image_allocator,
          "Makes its images, unless it is a result and the graph's destination_image_allocator "
          "makes no temporary ones; as that of kernels.")
      .settable("makes_temporary_images", &Node::makes_temporary_images,
                &Node::set_makes_temporary_images, kMakesTemporaryImages)
      .optional_property(
          "_producer",
          [](const Node& node) -> NNFilterNodePtr {
            return node.producer() == nullptr ? nullptr : node.producer()->shared_from_this();
          },
          "The node that makes it, or None.");
  return described;
}

template <class T, class Parent = NNStateNode>
ClassDescription state_node(const char* name, const char* summary) {
  return Describing<T, NNStateNode, Parent>(name, summary);
}

void describe_state_nodes(Classes& classes) {
  Describing<NNStateNode, NNStateNode> base("MPSNNStateNode",
                                            "A place of states, one per image or one for all.");
  describe_handle<NNStateNode>(base);
  base.property(
      "_owner", [](const NNStateNode& node) { return node.owner()->shared_from_this(); },
      "The node that makes it, or reads it from outside.");
  using Convolution = CNNConvolutionGradientStateNode;
  classes.insert(
      classes.end(),
      {base,
       state_node<NNGradientStateNode>("MPSNNGradientStateNode",
                                       "The state of a forward node that its gradient node reads."),
       state_node<Convolution, NNGradientStateNode>("MPSCNNConvolutionGradientStateNode",
                                                    "The same of a convolution."),
       state_node<CNNConvolutionTransposeGradientStateNode, Convolution>(
           "MPSCNNConvolutionTransposeGradientStateNode", "The same of a transposed one."),
       state_node<NNBinaryGradientStateNode>("MPSNNBinaryGradientStateNode",
                                             "The same of a node with two sources."),
       state_node<NNArithmeticGradientStateNode, NNBinaryGradientStateNode>(
           "MPSNNArithmeticGradientStateNode", "The same of arithmetic."),
       state_node<NNLabelsNode>("MPSNNLabelsNode", "The labels of a loss.")});
}

void describe_filter_nodes(Classes& classes) {
  using Node = NNFilterNode;
  classes.push_back(
      Describing<Node, Node>("MPSNNFilterNode",
                             "Images and states in, one image and perhaps a state out.")
          .property("result_image", &Node::result_image, "The image node of its result.")
          .optional_property("result_state", &Node::result_state,
                             "The state node that its gradient node reads, or None.")
          .property("result_states", &Node::result_states,
                    "As a list: a concatenation has one for each source.")
          .settable("label", &Node::label, "A name for messages.")
          .settable("padding_policy", &Node::padding, &Node::set_padding,
                    "How the result's size follows from the source's; as padding of the kernel.")
          .property("_sources", &Node::sources, "What it reads.")
          .property("_source_states", &Node::source_states, "What it reads.")
          .optional_property(
              "_made_of", &Node::made_of,
              "The arguments of its constructor, or None for a node that the library made."));
  classes.push_back(DescribingNode<NNGradientFilterNode>(
      "MPSNNGradientFilterNode",
      "The incoming gradient, the forward source and the forward node's state in."));
}

}  // namespace

const std::vector<ClassDescription>& node_classes() {
  static const Classes table = [] {
    Classes classes = {image_node()};
    for (const auto describe : {
             describe_state_nodes,
             describe_filter_nodes,
             describe_source_nodes,
             describe_neuron_nodes,
             describe_window_nodes,
             describe_unary_nodes,
             describe_joining_nodes,
         }) {
      describe(classes);
    }
    for (ClassDescription& one : classes) {
      if (one.forms.empty() || one.name == "MPSNNImageNode") continue;
      add_section(one, "Shapes:", "those of its kernel.");
      add_section(one, "Errors:", "what its kernel refuses, when a graph is made.");
    }
    return classes;
  }();
  return table;
}

}  // namespace traingraph::mps
