// Shared parts of kernel descriptions: the device argument, texts of the allocator, and the
// describe functions, one per family.
#pragma once

#include <string>
#include <vector>

#include <traingraph/describe.h>
#include <traingraph/mps/kernel.h>

namespace traingraph::mps {

using Classes = std::vector<ClassDescription>;

inline constexpr const char* kAllocator = "destination_image_allocator";
inline constexpr const char* kAllocatorText =
    "Makes the images that the other forms return: MPSTemporaryImage.default_allocator() at the "
    "beginning, MPSImage.default_allocator(), or an object with image(command_buffer, "
    "image_descriptor, kernel) and image_batch(command_buffer, image_descriptor, kernel, count). "
    "Copies share it; archives have makes_temporary_images.";
// A short form of it.
inline constexpr const char* kMakesTemporaryImages =
    "Whether the allocator is that of temporary images. False makes it that of permanent ones; an "
    "addition of traingraph.";

inline constexpr Range kMultipleOfFour{0, kInfinite, "0 or more, and a multiple of 4"};
inline constexpr const char* kOtherSource = "with_data_source";
inline constexpr const char* kCommandBufferText = "What it is encoded to.";
inline constexpr const char* kReloadText =
    "Reads the data source again, when all runs that were committed are done.";

inline Argument device_argument() { return argument<Device>("device", "Where it runs."); }

// What repr() gives, whatever the class.
template <class T>
std::string described_text(const T& object) {
  return "<" + object.description() + ">";
}

// Before data sources are asked: all that was committed is done.
inline void idle(const Kernel& kernel, const Given&) { kernel.device().wait_until_idle(); }
// The same where another data source is given.
inline void idle_for_source(const Kernel& kernel, const Given& given) {
  if (given.find(kOtherSource) != nullptr) idle(kernel, given);
}

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
