#pragma once

#include <string>
#include <vector>

#include <traingraph/describe.h>
#include <traingraph/mps/kernel.h>

// What the descriptions of kernels share.
namespace traingraph::mps {

using Classes = std::vector<ClassDescription>;

// An addition of traingraph in place of an allocator object.
inline constexpr const char* kMakesTemporaryImages =
    "Whether the forms that return images make temporary ones, as at the beginning; an addition of "
    "traingraph in place of destination_image_allocator.";

inline Argument device_argument() { return argument<Device>("device", "Where it runs."); }

// A class over `Parent`, made of its device first; K where several classes are one of C++.
template <class K, class Parent>
Describing<K, Kernel, Parent> describe_kernel(const std::string& name, const std::string& summary) {
  Describing<K, Kernel, Parent> described(name, summary);
  described.kept_argument("device", &Kernel::device, "Where it runs.");
  return described;
}

// A section of the text, such as "Shapes:", unless the class has its own.
inline void add_section(ClassDescription& description, const char* section, const char* text) {
  if (description.text.find(section) != std::string::npos) return;
  description.text += " " + std::string(section) + " " + text;
}

// By family, in the order of kernel_classes().
void describe_bases(Classes& classes);
void describe_neurons(Classes& classes);
void describe_pooling(Classes& classes);
void describe_filters(Classes& classes);
void describe_reductions(Classes& classes);
void describe_arithmetic(Classes& classes);
void describe_losses(Classes& classes);
void describe_optimizers(Classes& classes);
void describe_normalizations(Classes& classes);
void describe_weighted_kernels(Classes& classes);
// Of state_classes().
void describe_state_bases(Classes& classes);
void describe_dropout_states(Classes& classes);
void describe_arithmetic_states(Classes& classes);
void describe_loss_states(Classes& classes);
void describe_states(Classes& classes);
// Of value_classes().
void describe_convolution_descriptors(Classes& classes);
void describe_neuron_values(Classes& classes);
void describe_loss_values(Classes& classes);
void describe_optimizer_values(Classes& classes);

}  // namespace traingraph::mps
