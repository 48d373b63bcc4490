// Kernels of Metal Performance Shaders under their own names, as traingraph.mps encodes them
// (Op::named_kernel), and what kernels over images share. For .mm files only.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/metal/images/image_kernel.h"

namespace traingraph::metal {

// One of Apple's classes.
struct NamedKernel {
  std::string name;
  // What is against these properties and operands; empty: nothing.
  std::string (*refuses)(const ir::Graph&, const ir::Node&);
  std::unique_ptr<Kernel> (*make)(const ir::Graph&, const ir::Node&, Device&);
  // Where no page and no header settles what it computes, or they print something else than its ops
  // do: its name in the list of kernels that were verified on this machine, which decides then
  // (`python -m traingraph verify`). Nothing: it is settled. Null: it always is.
  std::optional<std::string> (*unsettled)(const ir::Node&) = nullptr;
  // So many of its last operands may be missing.
  std::size_t optional_operands = 0;
};

// The class, this form of it, and whether its ops compute what Apple's text prints.
std::string form_of(const ir::Node& node, const char* form);
// Of a kernel that is never settled.
inline std::optional<std::string> unsettled(const ir::Node& node) { return form_of(node, ""); }

// By family.
std::vector<NamedKernel> named_arithmetic();
std::vector<NamedKernel> named_convolution_transpose();
std::vector<NamedKernel> named_dropout();
std::vector<NamedKernel> named_image_normalizations();
std::vector<NamedKernel> named_local_normalizations();
std::vector<NamedKernel> named_losses();
std::vector<NamedKernel> named_moves();
std::vector<NamedKernel> named_neurons();
std::vector<NamedKernel> named_optimizers();
std::vector<NamedKernel> named_pooling();
std::vector<NamedKernel> named_reductions();
std::vector<NamedKernel> named_softmax();
std::vector<NamedKernel> named_upsampling();

// A number among the kernel's properties, as its archive names them; `otherwise` where there is
// none.
double number_of(const ir::Node& node, std::string_view name, double otherwise = 0);
inline float float_of(const ir::Node& node, std::string_view name) {
  return static_cast<float>(number_of(node, name));
}
NSUInteger count_of(const ir::Node& node, std::string_view name, NSUInteger otherwise = 0);
MPSOffset offset_of(const ir::Node& node, const std::string& name);
// The same without its third number: the images that an offset leaves out are no operands.
MPSOffset pixels_of(const ir::Node& node, const std::string& name);
// Autoreleased.
MPSNNNeuronDescriptor* neuron_descriptor_of(const ir::Node& node, const std::string& name);

// Why these values cannot be images of float32; empty where they can.
std::string refused_images(const ir::Graph& graph, const std::vector<ir::ValueId>& values);
// The same of the first so many inputs and these results, for a kernel without numbers of a run.
std::string refused_images(const ir::Graph& graph, const ir::Node& node, std::size_t sources,
                           const std::vector<ir::ValueId>& results);
inline std::string refused_images(const ir::Graph& graph, const ir::Node& node,
                                  std::size_t sources) {
  return refused_images(graph, node, sources, node.outputs);
}

// One source, one result. Further inputs of the node are not read: Apple's kernel makes them
// itself. The kernel over memory is what ImageKernel says.
std::unique_ptr<Kernel> forward_images(const ir::Graph& graph, const ir::Node& node, Device& device,
                                       const Ref<MPSCNNKernel*>& kernel,
                                       std::unique_ptr<Kernel> over_memory = nullptr);
// Two sources, one result.
std::unique_ptr<Kernel> binary_images(const ir::Graph& graph, const ir::Node& node, Device& device,
                                      const Ref<MPSCNNBinaryKernel*>& kernel);
// The gradient that comes in and a second image → the gradient of the source. Of a second image
// that is kNone only the size matters, which is that of the result. The state is made by the
// forward kernel, which encodes nothing.
struct GradientValues {
  ir::ValueId dy, x, dx;
};
std::unique_ptr<Kernel> gradient_images(const ir::Graph& graph, const GradientValues& values,
                                        Device& device, const Ref<MPSCNNKernel*>& forward,
                                        const Ref<MPSCNNGradientKernel*>& kernel);

inline std::string refuses_one_source(const ir::Graph& graph, const ir::Node& node) {
  return refused_images(graph, node, 1);
}
inline std::string refuses_two_sources(const ir::Graph& graph, const ir::Node& node) {
  return refused_images(graph, node, 2);
}

// Apple's kernels of a node's properties, for the rows below. The prefix stands before names of the
// forward kernel's properties among those of the gradient kernel. This one is of a class without.
template <class K>
Ref<K*> plain(const ir::Node&, id<MTLDevice> gpu, const std::string&) {
  return Ref<K*>::own([[K alloc] initWithDevice:gpu]);
}

template <auto kForward>
std::unique_ptr<Kernel> make_forward(const ir::Graph& graph, const ir::Node& node, Device& device) {
  const Pool pool;
  return forward_images(graph, node, device, kForward(node, device.objects().device.get(), ""));
}
template <auto kBinary>
std::unique_ptr<Kernel> make_binary(const ir::Graph& graph, const ir::Node& node, Device& device) {
  const Pool pool;
  return binary_images(graph, node, device, kBinary(node, device.objects().device.get(), ""));
}
template <auto kForward, auto kGradient>
std::unique_ptr<Kernel> make_gradient(const ir::Graph& graph, const ir::Node& node,
                                      Device& device) {
  const Pool pool;
  id<MTLDevice> gpu = device.objects().device.get();
  return gradient_images(graph, {node.inputs[0], node.inputs[1], node.outputs[0]}, device,
                         kForward(node, gpu, "secondary_"), kGradient(node, gpu, "secondary_"));
}

template <class K>
std::string name_of() {
  const Pool pool;
  return [NSStringFromClass([K class]) UTF8String];
}
template <class K, auto kForward>
NamedKernel forward_row() {
  return {name_of<K>(), refuses_one_source, make_forward<kForward>};
}
template <class K, auto kBinary>
NamedKernel binary_row() {
  return {name_of<K>(), refuses_two_sources, make_binary<kBinary>};
}
template <class G, auto kForward, auto kGradient>
NamedKernel gradient_row(decltype(NamedKernel::unsettled) unsettled = nullptr) {
  return {name_of<G>(), refuses_two_sources, make_gradient<kForward, kGradient>, unsettled};
}

}  // namespace traingraph::metal
