#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/metal/image_kernel.h"

// Kernels of Metal Performance Shaders under their own names, as traingraph.mps encodes them
// (Op::named_kernel). For .mm files only.
namespace traingraph::metal {

inline bool never(const ir::Node&) { return false; }
inline bool always(const ir::Node&) { return true; }

// One of Apple's classes.
struct NamedKernel {
  const char* name;
  // What is against these properties and operands; empty: nothing.
  std::string (*refuses)(const ir::Graph&, const ir::Node&);
  std::unique_ptr<Kernel> (*make)(const ir::Graph&, const ir::Node&, Device&);
  // Whether what Apple's pages say of it is silent about, or against, what its ops compute.
  bool (*is_on_trial)(const ir::Node&) = never;
  // So many of its last operands may be missing.
  std::size_t optional_operands = 0;
};

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
// itself.
class ForwardImages final : public ImageKernel {
 public:
  ForwardImages(const ir::Graph& graph, const ir::Node& node, Device& device,
                Ref<MPSCNNKernel*> kernel);

 private:
  void encode_images(const Images& images, Pointers pointers, Encoding& encoding) override;
  Ref<MPSCNNKernel*> kernel_;
};

// Two sources, one result.
class BinaryImages final : public ImageKernel {
 public:
  BinaryImages(const ir::Graph& graph, const ir::Node& node, Device& device,
               Ref<MPSCNNBinaryKernel*> kernel);

 private:
  void encode_images(const Images& images, Pointers pointers, Encoding& encoding) override;
  Ref<MPSCNNBinaryKernel*> kernel_;
};

// The gradient that comes in and a second image → the gradient of the source. Its state is made by
// the forward kernel, which encodes nothing.
class GradientImages final : public ImageKernel {
 public:
  GradientImages(const ir::Graph& graph, const ir::Node& node, Device& device,
                 Ref<MPSCNNKernel*> forward, Ref<MPSCNNGradientKernel*> kernel);

 private:
  void encode_images(const Images& images, Pointers pointers, Encoding& encoding) override;
  Ref<MPSCNNKernel*> forward_;
  Ref<MPSCNNGradientKernel*> kernel_;
};

// Rows of the table for one class and its gradient: `kForward` makes the first of a node's
// properties, given what stands before their names in a gradient kernel's, `kGradient` the second.
using ForwardOf = Ref<MPSCNNKernel*> (*)(const ir::Node&, id<MTLDevice>, const std::string& prefix);
using BinaryOf = Ref<MPSCNNBinaryKernel*> (*)(const ir::Node&, id<MTLDevice>);
using GradientOf = Ref<MPSCNNGradientKernel*> (*)(const ir::Node&, id<MTLDevice>);

// Of a class without properties.
template <class K>
Ref<MPSCNNKernel*> plain(const ir::Node&, id<MTLDevice> gpu, const std::string&) {
  return Ref<MPSCNNKernel*>::own([[K alloc] initWithDevice:gpu]);
}
template <class K>
Ref<MPSCNNGradientKernel*> plain_gradient(const ir::Node&, id<MTLDevice> gpu) {
  return Ref<MPSCNNGradientKernel*>::own([[K alloc] initWithDevice:gpu]);
}

template <ForwardOf kForward>
std::unique_ptr<Kernel> make_forward(const ir::Graph& graph, const ir::Node& node, Device& device) {
  const Pool pool;
  return std::make_unique<ForwardImages>(graph, node, device,
                                         kForward(node, device.objects().device.get(), ""));
}
template <BinaryOf kBinary>
std::unique_ptr<Kernel> make_binary(const ir::Graph& graph, const ir::Node& node, Device& device) {
  const Pool pool;
  return std::make_unique<BinaryImages>(graph, node, device,
                                        kBinary(node, device.objects().device.get()));
}
template <ForwardOf kForward, GradientOf kGradient>
std::unique_ptr<Kernel> make_gradient(const ir::Graph& graph, const ir::Node& node,
                                      Device& device) {
  const Pool pool;
  id<MTLDevice> gpu = device.objects().device.get();
  return std::make_unique<GradientImages>(graph, node, device, kForward(node, gpu, "secondary_"),
                                          kGradient(node, gpu));
}
inline std::string refuses_one_source(const ir::Graph& graph, const ir::Node& node) {
  return refused_images(graph, node, 1);
}
inline std::string refuses_two_sources(const ir::Graph& graph, const ir::Node& node) {
  return refused_images(graph, node, 2);
}

}  // namespace traingraph::metal
