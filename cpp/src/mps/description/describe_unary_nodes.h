// Templates that describe nodes with one source and parameters, and their gradient nodes, by a row
// of <traingraph/mps/unary_nodes.h>.
#pragma once

#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include <traingraph/errors.h>
#include <traingraph/mps/unary_nodes.h>

#include "ir/number_text.h"
#include "mps/description/describe_nodes.h"

namespace traingraph::mps {

using Arguments = std::vector<Argument>;

inline constexpr const char* kOtherNumbers =
    "Errors: the state of another kind of node, and other numbers than its own.";
inline constexpr const char* kInPixels = "In pixels.";

// A node of this row; `parameters` gives them of what is given.
template <class P, class Parent = NNFilterNode, class Get>
DescribingNode<ParameterNode<P>, Parent> forward_node(const NodeRow<P>& row,
                                                      const std::string& summary, const char* text,
                                                      const Arguments& rest, Get parameters) {
  DescribingNode<ParameterNode<P>, Parent> described(row.name, summary);
  described.takes({source_argument()}).takes(rest).made_by(text, [=](const Given& given) {
    return std::make_shared<ParameterNode<P>>(row, given.get<NNImageNodePtr>("source"),
                                              parameters(given));
  });
  return described;
}

template <class P>
std::shared_ptr<ParameterGradientNode<P>> make_gradient(const NodeRow<P>& row, const Given& given) {
  return std::make_shared<ParameterGradientNode<P>>(
      row, given.get<NNImageNodePtr>("source_gradient"), given.get<NNImageNodePtr>("source_image"),
      given.get<NNStateNodePtr>("gradient_state"));
}

// The gradient node of this row; `use` takes the node and what is given.
template <class P, class Parent = NNGradientFilterNode, class Use>
DescribingNode<ParameterGradientNode<P>, Parent> gradient_node(const NodeRow<P>& row,
                                                               const char* summary,
                                                               const char* text,
                                                               const Arguments& rest, Use use) {
  DescribingNode<ParameterGradientNode<P>, Parent> described(row.gradient, summary);
  described.takes(gradient_arguments()).takes(rest).made_by(text, [=](const Given& given) {
    const auto node = make_gradient(row, given);
    use(*node, given);
    return node;
  });
  return described;
}
template <class P>
DescribingNode<ParameterGradientNode<P>, NNGradientFilterNode> gradient_node(const NodeRow<P>& row,
                                                                             const char* summary) {
  return gradient_node(row, summary, kWrongState, {},
                       [](const ParameterGradientNode<P>&, const Given&) {});
}

// --- numbers that Apple asks a gradient node for again -------------------------------------------

template <class T>
std::string number(T value) {
  const auto wide = static_cast<double>(value);
  if (std::is_integral_v<T> || !std::isfinite(wide)) return short_text(value);
  return number_text(wide);
}
inline std::string number(const Coordinate& c) {
  return "(" + number(c.x) + ", " + number(c.y) + ", " + number(c.channel) + ")";
}

template <class Node, class T>
void expect(const Node& node, const Given& given, const char* name, const T& wanted) {
  const T got = given.get<T>(name);
  if (wanted == got) return;
  throw InvalidArgument("[" + node.description() + "] expected " + name + " " + number(wanted) +
                        ", as " + node.forward().description() + " has, but got " + number(got));
}

}  // namespace traingraph::mps
