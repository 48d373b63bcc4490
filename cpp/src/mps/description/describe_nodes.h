#pragma once

#include <vector>

#include <traingraph/describe.h>
#include <traingraph/mps/nodes.h>

#include "mps/description/describe_kernel.h"

// What the descriptions of nodes share.
namespace traingraph::mps {

template <class T, class Parent = NNFilterNode>
using DescribingNode = Describing<T, NNFilterNode, Parent>;

inline constexpr const char* kTrainingStyle =
    "Where the data source is called for an update; a gradient node has its forward node's.";
inline constexpr const char* kWrongState = "Errors: the state of another kind of node.";

inline Argument source_argument() {
  return argument<NNImageNodePtr>("source", "The image that it reads.");
}
inline std::vector<Argument> gradient_arguments(const char* state = "gradient_state") {
  return {argument<NNImageNodePtr>("source_gradient", "The gradient of the forward node's result."),
          argument<NNImageNodePtr>("source_image", "The forward node's source."),
          argument<NNStateNodePtr>(state, "The forward node's state.")};
}

// A gradient node of two images and a state alone.
template <class T>
DescribingNode<T, NNGradientFilterNode> gradient_node(const char* name, const char* summary) {
  DescribingNode<T, NNGradientFilterNode> described(name, summary);
  described.takes(gradient_arguments())
      .template made_of<NNImageNodePtr, NNImageNodePtr, NNStateNodePtr>(kWrongState);
  return described;
}

// One of a node's parameters; `part` is a member, or a function that finds it.
template <class T, class Parent, class Part>
DescribingNode<T, Parent>& parameter(DescribingNode<T, Parent>& described, const char* name,
                                     Part part, const char* text) {
  return described.property(
      name, [part](const T& node) { return std::invoke(part, node.parameters()); }, text);
}
template <class T, class Parent, class Part>
DescribingNode<T, Parent>& settable_parameter(DescribingNode<T, Parent>& described,
                                              const std::string& name, Part part,
                                              const char* text) {
  return described.settable_part(name, &T::parameters, &T::set_parameters, part, text);
}

// By family, in the order of node_classes().
void describe_source_nodes(Classes& classes);
void describe_neuron_nodes(Classes& classes);
void describe_window_nodes(Classes& classes);
void describe_unary_nodes(Classes& classes);
void describe_joining_nodes(Classes& classes);

}  // namespace traingraph::mps
