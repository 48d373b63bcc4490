#include "backends/metal/named_kernels.h"

#include <map>

#include "backends/metal/mps_entries.h"

namespace traingraph::metal {
namespace {

const NamedKernel* find(const std::string& name) {
  static const std::map<std::string, NamedKernel> all = [] {
    std::map<std::string, NamedKernel> table;
    for (auto family :
         {named_arithmetic, named_convolution_transpose, named_dropout, named_image_normalizations,
          named_local_normalizations, named_losses, named_optimizers, named_moves, named_neurons,
          named_pooling, named_reductions, named_softmax, named_upsampling}) {
      for (const NamedKernel& kernel : family()) table.emplace(kernel.name, kernel);
    }
    return table;
  }();
  const auto found = all.find(name);
  return found == all.end() ? nullptr : &found->second;
}

const ir::NamedKernelAttributes& attributes_of(const ir::Node& node) {
  return std::get<ir::NamedKernelAttributes>(node.attributes);
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const std::string& name = attributes_of(node).name;
  const NamedKernel* const kernel = find(name);
  if (kernel == nullptr) return Support::no("mps: " + name + " is composed of other ops");
  const std::string reason = count_of(node, "missing_operands") > kernel->optional_operands
                                 ? "an operand that is missing"
                                 : kernel->refuses(graph, node);
  return reason.empty() ? Support{} : Support::no("mps: " + name + ": " + reason);
}

std::unique_ptr<Kernel> make_named(const ir::Graph& graph, const ir::Node& node, Device& device) {
  return find(attributes_of(node).name)->make(graph, node, device);
}

}  // namespace

bool is_on_trial(const ir::Node& node) {
  const NamedKernel* const kernel = find(attributes_of(node).name);
  return kernel != nullptr && kernel->is_on_trial(node);
}

std::vector<KernelEntry> named_kernel_entries() {
  return {{ir::Op::named_kernel, supports, make_named}};
}

double number_of(const ir::Node& node, std::string_view name, double otherwise) {
  for (const auto& [key, number] : attributes_of(node).numbers) {
    if (key == name) return number;
  }
  return otherwise;
}

NSUInteger count_of(const ir::Node& node, std::string_view name, NSUInteger otherwise) {
  return static_cast<NSUInteger>(number_of(node, name, static_cast<double>(otherwise)));
}

MPSOffset offset_of(const ir::Node& node, const std::string& name) {
  const auto part = [&](const char* axis) {
    return static_cast<NSInteger>(number_of(node, name + axis));
  };
  return {part(".0"), part(".1"), part(".2")};
}

MPSOffset pixels_of(const ir::Node& node, const std::string& name) {
  const MPSOffset offset = offset_of(node, name);
  return {offset.x, offset.y, 0};
}

std::string refused_images(const ir::Graph& graph, const std::vector<ir::ValueId>& values) {
  for (ir::ValueId id : values) {
    const ir::Type& type = graph.type(id);
    if (type.data_type != DataType::kFloat32) return "images of another type than float32";
    if (type.elements() == 0) return "images without elements";
    std::string reason = no_images(type.shape);
    if (!reason.empty()) return reason;
  }
  return {};
}

std::string refused_images(const ir::Graph& graph, const ir::Node& node, std::size_t sources,
                           const std::vector<ir::ValueId>& results) {
  std::vector<ir::ValueId> operands(node.inputs.begin(),
                                    node.inputs.begin() + static_cast<std::ptrdiff_t>(sources));
  operands.insert(operands.end(), results.begin(), results.end());
  if (number_of(node, "running_numbers") != 0) return "numbers that change from run to run";
  return refused_images(graph, operands);
}

ForwardImages::ForwardImages(const ir::Graph& graph, const ir::Node& node, Device& device,
                             Ref<MPSCNNKernel*> kernel)
    : ImageKernel(graph, device, {.sources = {{node.inputs[0]}}, .results = {node.outputs[0]}}),
      kernel_(std::move(kernel)) {}

void ForwardImages::encode_images(const Images& images, Pointers, Encoding& encoding) {
  [kernel_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                               sourceImages:images.source(0)
                          destinationImages:images.result(0)];
}

BinaryImages::BinaryImages(const ir::Graph& graph, const ir::Node& node, Device& device,
                           Ref<MPSCNNBinaryKernel*> kernel)
    : ImageKernel(graph, device,
                  {.sources = {{node.inputs[0]}, {node.inputs[1]}}, .results = {node.outputs[0]}}),
      kernel_(std::move(kernel)) {}

void BinaryImages::encode_images(const Images& images, Pointers, Encoding& encoding) {
  [kernel_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                              primaryImages:images.source(0)
                            secondaryImages:images.source(1)
                          destinationImages:images.result(0)];
}

GradientImages::GradientImages(const ir::Graph& graph, const ir::Node& node, Device& device,
                               Ref<MPSCNNKernel*> forward, Ref<MPSCNNGradientKernel*> kernel)
    : ImageKernel(graph, device,
                  {.sources = {{node.inputs[0]}, {node.inputs[1]}}, .results = {node.outputs[0]}}),
      forward_(std::move(forward)),
      kernel_(std::move(kernel)) {}

void GradientImages::encode_images(const Images& images, Pointers, Encoding& encoding) {
  MPSStateBatch* states =
      [forward_.get() temporaryResultStateBatchForCommandBuffer:command_buffer(encoding)
                                                    sourceImage:images.source(1)
                                                   sourceStates:nil
                                               destinationImage:images.source(0)];
  [kernel_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                            sourceGradients:images.source(0)
                               sourceImages:images.source(1)
                             gradientStates:states
                       destinationGradients:images.result(0)];
}

}  // namespace traingraph::metal
