#include "mps/kernel_description.h"

#include <algorithm>

namespace traingraph::mps {
namespace {

void add(KernelDescription& to, std::vector<KernelDescription::Property> properties) {
  for (KernelDescription::Property& property : properties) to.set(std::move(property));
}

// One of the two numbers of a range of channels, which are properties of their own.
template <class K, auto kGet, auto kSet, auto kMember>
KernelDescription::Property channels_of(const char* name) {
  return property_of<K>(
      name, [](const K& kernel) { return (kernel.*kGet)().*kMember; },
      [](K& kernel, std::int64_t value) {
        ChannelRange range = (kernel.*kGet)();
        range.*kMember = value;
        (kernel.*kSet)(range);
      });
}

template <class K>
void add_clipped(KernelDescription& to) {
  add(to,
      {property_of<K>("clip_rect", &K::clip_rect, &K::set_clip_rect),
       property_of<K>("destination_feature_channel_offset", &K::destination_feature_channel_offset,
                      &K::set_destination_feature_channel_offset),
       property_of<K>("makes_temporary_images", &K::makes_temporary_images)});
}

template <class K>
void add_two_sources(KernelDescription& to) {
  constexpr auto kOffset = &ChannelRange::offset;
  constexpr auto kCount = &ChannelRange::max_count;
  add_clipped<K>(to);
  add(to, {property_of<K>("primary_offset", &K::primary_offset, &K::set_primary_offset),
           property_of<K>("secondary_offset", &K::secondary_offset, &K::set_secondary_offset),
           channels_of<K, &K::primary_channels, &K::set_primary_channels, kOffset>(
               "primary_source_feature_channel_offset"),
           channels_of<K, &K::primary_channels, &K::set_primary_channels, kCount>(
               "primary_source_feature_channel_max_count"),
           channels_of<K, &K::secondary_channels, &K::set_secondary_channels, kOffset>(
               "secondary_source_feature_channel_offset"),
           channels_of<K, &K::secondary_channels, &K::set_secondary_channels, kCount>(
               "secondary_source_feature_channel_max_count")});
}

// Bits that are none of the policy's are damage.
void set_padding(CNNKernel& kernel, std::int64_t value) {
  constexpr std::int64_t kKnown = PaddingMethod::kAlignMask | PaddingMethod::kRemainderToRight |
                                  PaddingMethod::kRemainderToBottom | PaddingMethod::kSizeMask |
                                  PaddingMethod::kExcludeEdges;
  if (value < 0 || (value | kKnown) != kKnown) {
    throw InvalidArgument("expected a padding policy but got " + std::to_string(value));
  }
  kernel.set_padding_method(static_cast<int>(value));
}

}  // namespace

void KernelDescription::set(Property property) {
  const auto found = std::ranges::find(properties, property.name, &Property::name);
  if (found == properties.end()) {
    properties.push_back(std::move(property));
  } else {
    *found = std::move(property);
  }
}

void add_properties_of(KernelDescription& to, const Kernel*) {
  to.set(property_of<Kernel>("label", &Kernel::label));
}

void add_properties_of(KernelDescription& to, const CNNKernel*) {
  using K = CNNKernel;
  add_properties_of(to, static_cast<const Kernel*>(nullptr));
  add_clipped<K>(to);
  add(to, {property_of<K>("offset", &K::offset, &K::set_offset),
           property_of<K>("edge_mode", &K::edge_mode, &K::set_edge_mode),
           property_of<K>(
               "padding", [](const K& kernel) { return std::int64_t{kernel.padding_method()}; },
               set_padding),
           channels_of<K, &K::source_channels, &K::set_source_channels, &ChannelRange::offset>(
               "source_feature_channel_offset"),
           channels_of<K, &K::source_channels, &K::set_source_channels, &ChannelRange::max_count>(
               "source_feature_channel_max_count")});
}

void add_properties_of(KernelDescription& to, const CNNGradientKernel*) {
  using K = CNNGradientKernel;
  add_properties_of(to, static_cast<const Kernel*>(nullptr));
  add_two_sources<K>(to);
  add(to, {property_of<K>("kernel_offset_x", &K::kernel_offset_x, &K::set_kernel_offset_x),
           property_of<K>("kernel_offset_y", &K::kernel_offset_y, &K::set_kernel_offset_y),
           property_of<K>("secondary_edge_mode", &K::secondary_edge_mode,
                          &K::set_secondary_edge_mode)});
}

void add_properties_of(KernelDescription& to, const CNNBinaryKernel*) {
  add_properties_of(to, static_cast<const Kernel*>(nullptr));
  add_two_sources<CNNBinaryKernel>(to);
}

}  // namespace traingraph::mps
