#pragma once

#include <vector>

#include <traingraph/describe.h>

// What descriptors of convolutions and pooling say of their window.
namespace traingraph {

template <class D>
void describe_window(Describing<D>& described) {
  described
      .property(
          "kernel_sizes", [](const D& d) { return Pair{d.kernel_height, d.kernel_width}; },
          "(height, width).")
      .property("kernel_height", &D::kernel_height, "Units: elements.")
      .property("kernel_width", &D::kernel_width, "Units: elements.")
      .property(
          "strides", [](const D& d) { return Pair{d.stride_y, d.stride_x}; }, "(y, x).")
      .property("stride_in_y", &D::stride_y, "Units: elements.")
      .property("stride_in_x", &D::stride_x, "Units: elements.")
      .property(
          "dilation_rates", [](const D& d) { return Pair{d.dilation_y, d.dilation_x}; }, "(y, x).")
      .property("dilation_rate_in_y", &D::dilation_y, "Distance of kernel elements.")
      .property("dilation_rate_in_x", &D::dilation_x, "Distance of kernel elements.")
      .property("padding_size_in_y", &D::padding_y, "0 unless the policy is sized.")
      .property("padding_size_in_x", &D::padding_x, "0 unless the policy is sized.")
      .property(
          "padding_policy",
          [](const D& d) { return Padding{d.padding_policy, {d.padding_y, d.padding_x}}; },
          "The policy, with its sizes if it has any.");
}

inline Argument dilation_argument() {
  return argument("dilation_rates", Pair{1, 1}, "Distances of kernel elements, (y, x).",
                  &kOfWindow);
}
inline Argument padding_argument() {
  return argument("padding_policy", Padding{}, "What lies around the source.");
}

template <class D>
void set_window(D& d, const Given& given) {
  const auto sizes = given.get<Pair>("kernel_sizes");
  const auto strides = given.get<Pair>("strides");
  const auto dilations = given.get<Pair>("dilation_rates");
  const auto padding = given.get<Padding>("padding_policy");
  d.kernel_height = sizes.y;
  d.kernel_width = sizes.x;
  d.stride_y = strides.y;
  d.stride_x = strides.x;
  d.dilation_y = dilations.y;
  d.dilation_x = dilations.x;
  d.padding_policy = padding.policy;
  d.padding_y = padding.sizes.y;
  d.padding_x = padding.sizes.x;
}

}  // namespace traingraph
