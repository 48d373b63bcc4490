// The table of kernels by name, how their properties are read, and kernels over images that several
// families share.
#include "backends/metal/kernels/named_kernels.h"

#include <algorithm>
#include <map>

#include "backends/metal/images/states.h"
#include "backends/metal/kernels/entries.h"
#include "runtime/files/verification.h"

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

// What neither Apple's pages nor this machine has settled; empty: nothing. The note is read once:
// forward and gradient kernel of a training have one answer, though the note may change meanwhile.
std::string unverified(const NamedKernel& kernel, const ir::Node& node) {
  const auto name = kernel.unsettled == nullptr ? std::nullopt : kernel.unsettled(node);
  static const std::vector<std::string> noted = verified("metal");
  if (!name || std::ranges::count(noted, *name) != 0) return {};
  return "'" + *name + "' is not verified on this machine";
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const std::string& name = attributes_of(node).name;
  const NamedKernel* const kernel = find(name);
  if (kernel == nullptr) return Support::no("mps: " + name + " is composed of other ops");
  std::string reason = count_of(node, "missing_operands") > kernel->optional_operands
                           ? "an operand that is missing"
                           : kernel->refuses(graph, node);
  if (reason.empty()) reason = unverified(*kernel, node);
  return reason.empty() ? Support{} : Support::no("mps: " + name + ": " + reason);
}

std::unique_ptr<Kernel> make_named(const ir::Graph& graph, const ir::Node& node, Device& device) {
  return find(attributes_of(node).name)->make(graph, node, device);
}

}  // namespace

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

std::string form_of(const ir::Node& node, const char* form) {
  const bool by_header = number_of(node, "header_formula") != 0;
  return attributes_of(node).name + form + (by_header ? " header_formula" : "");
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

std::unique_ptr<Kernel> forward_images(const ir::Graph& graph, const ir::Node& node, Device& device,
                                       const Ref<MPSCNNKernel*>& kernel,
                                       std::unique_ptr<Kernel> over_memory) {
  return std::make_unique<ImageKernel>(
      graph, device, ImageOperands{.sources = {{node.inputs[0]}}, .results = {node.outputs[0]}},
      [kernel](const Images& images, Pointers, Encoding& encoding) {
        [kernel.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                    sourceImages:images.source(0)
                               destinationImages:images.result(0)];
      },
      std::move(over_memory));
}

std::unique_ptr<Kernel> binary_images(const ir::Graph& graph, const ir::Node& node, Device& device,
                                      const Ref<MPSCNNBinaryKernel*>& kernel) {
  return std::make_unique<ImageKernel>(
      graph, device, ImageOperands::all_of(node),
      [kernel](const Images& images, Pointers, Encoding& encoding) {
        [kernel.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                   primaryImages:images.source(0)
                                 secondaryImages:images.source(1)
                               destinationImages:images.result(0)];
      });
}

std::unique_ptr<Kernel> gradient_images(const ir::Graph& graph, const GradientValues& values,
                                        Device& device, const Ref<MPSCNNKernel*>& forward,
                                        const Ref<MPSCNNGradientKernel*>& kernel) {
  ImageOperands operands{.sources = {{values.dy}}, .results = {values.dx}};
  Ref<MPSImageBatch*> like_x;
  if (values.x == ir::kNone) {
    like_x = blank_images(device, graph.type(values.dx).shape);
  } else {
    operands.sources.push_back({values.x});
  }
  return std::make_unique<ImageKernel>(
      graph, device, std::move(operands),
      [forward, kernel, like_x](const Images& images, Pointers, Encoding& encoding) {
        MPSImageBatch* dy = images.source(0);
        MPSImageBatch* x = like_x.get() == nil ? images.source(1) : like_x.get();
        MPSStateBatch* states = held_or_empty(
            encoding,
            [forward.get() temporaryResultStateBatchForCommandBuffer:command_buffer(encoding)
                                                         sourceImage:x
                                                        sourceStates:nil
                                                    destinationImage:dy],
            [dy count]);
        [kernel.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                 sourceGradients:dy
                                    sourceImages:x
                                  gradientStates:states
                            destinationGradients:images.result(0)];
        end_reads(states);
      });
}

}  // namespace traingraph::metal
