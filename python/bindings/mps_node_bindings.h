#pragma once

#include <concepts>
#include <memory>
#include <string>

#include "bound_class.h"
#include "mps_bindings.h"
#include "release.h"

// What the bindings of nodes share.
namespace traingraph::python {

// A node keeps the arguments it was made with: traingraph.mps.graph_coding reads them.
void keep_arguments(mps::NNFilterNode& node, const Arguments& arguments);
template <std::derived_from<mps::NNFilterNode> Node>
struct AfterMaking<Node> {
  static void keep(const std::shared_ptr<Node>& made, const Arguments& arguments) {
    keep_arguments(*made, arguments);
  }
};

inline const std::string kNodeSource = "source: MPSNNImageNode";
inline const std::string kNodeGradientSources =
    "source_gradient: MPSNNImageNode, source_image: MPSNNImageNode, ";
inline const std::string kNodeGradientForm =
    kNodeGradientSources + "gradient_state: MPSNNStateNode";

inline mps::NNImageNodePtr source_node(const Arguments& a) {
  return a.get<mps::NNImageNodePtr>("source");
}

template <typename T, typename Base>
auto bind_node(py::module_& module, const char* name, const char* doc) {
  return BoundClass<T, Base, std::shared_ptr<T>>(module, name, doc);
}

// From two images and a state alone.
template <typename T>
std::shared_ptr<T> make_gradient_node(const Arguments& a) {
  return std::make_shared<T>(a.get<mps::NNImageNodePtr>("source_gradient"),
                             a.get<mps::NNImageNodePtr>("source_image"),
                             a.get<mps::NNStateNodePtr>("gradient_state"));
}

template <typename T>
auto bind_gradient_node(py::module_& module, const char* name, const char* doc) {
  auto cls = bind_node<T, mps::NNGradientFilterNode>(module, name, doc);
  def_init(cls, {kNodeGradientForm}, "Errors: the state of another kind of node.",
           make_gradient_node<T>);
  return cls;
}

template <typename Class>
void def_training_style(Class& cls) {
  using Self = typename Class::type;
  cls.def_property(
      "training_style", [](const Self& self) { return self.training_style; },
      [](Self& self, mps::NNTrainingStyle value) { self.training_style = value; },
      "Where the data source is called for an update; a gradient node has its forward node's.");
}

// One of a node's parameters, which a gradient node has of its forward node until they are set.
template <typename Node>
auto node_parameters(const Node& node) {
  if constexpr (requires { node.parameters(); }) {
    return node.parameters();
  } else {
    return node.parameters;
  }
}
template <typename Class, typename Get>
void def_parameter(Class& cls, const char* name, Get get, const char* doc) {
  using Self = typename Class::type;
  cls.def_property_readonly(
      name, [get](const Self& self) { return get(node_parameters(self)); }, doc);
}
template <typename Class, typename Owner, typename T>
void def_parameter_member(Class& cls, const char* name, T Owner::* member, const char* doc) {
  using Self = typename Class::type;
  cls.def_property(
      name, [member](const Self& self) { return node_parameters(self).*member; },
      [member](Self& self, T value) {
        auto changed = node_parameters(self);
        changed.*member = value;
        if constexpr (requires { self.set_parameters(changed); }) {
          self.set_parameters(changed);
        } else {
          self.parameters = changed;
        }
      },
      doc);
}

// Numbers that the program's own object gives, by a method of two images.
void set_number_callback(mps::NNNumberCallback& callback, const py::object& value,
                         const Where& where, const char* method);
py::object from_number_callback(const mps::NNNumberCallback& callback);

}  // namespace traingraph::python
