// Filters of the double: what a BNNSFilter points at, and the register of those that exist.
#pragma once

#include <Accelerate/Accelerate.h>

#include <cstddef>

#include "double.h"

namespace accelerate_double {

// A window over the last two axes; [0] counts columns (x), [1] rows (y).
struct Window {
  std::size_t kernel[2], stride[2], dilation[2], before[2];

  // The source's column or row under a tap of the window at a position; false outside of it.
  bool source(int axis, std::size_t position, std::size_t tap, std::size_t extent,
              std::size_t& found) const {
    const std::size_t at = position * stride[axis] + tap * dilation[axis];
    if (at < before[axis] || at - before[axis] >= extent) return false;
    found = at - before[axis];
    return true;
  }
};

struct Filter {
  enum Kind { kConvolution, kPooling };
  Kind kind;
  Window window;
  std::size_t in[3], out[3];  // x, y, channels
  // convolution
  std::size_t groups = 1;
  const float* weights = nullptr;  // the caller's, or `copy`
  float* copy = nullptr;
  // pooling
  BNNSPoolingFunction function = BNNSPoolingFunctionL2Norm;

  std::size_t in_elements() const { return in[0] * in[1] * in[2]; }
  std::size_t out_elements() const { return out[0] * out[1] * out[2]; }
  std::size_t weight_elements() const {
    return window.kernel[0] * window.kernel[1] * (in[2] / groups) * out[2];
  }
};

// Takes the filter into the register, and finds it there; the latter ends the process where it is
// not, or is of another kind.
BNNSFilter enter(Filter* filter);
Filter& living(BNNSFilter filter, Filter::Kind kind, const char* call);
std::size_t living_filters();

// Checks shared by the layers. `descriptor` has this layout, float32 and dense strides.
void require_described(const BNNSNDArrayDescriptor& descriptor, BNNSDataLayout layout,
                       const char* call);
// Extents of `in` and `out` have to fit the window.
void require_window(const Filter& filter, const std::size_t after[2], const char* call);
// Fills in what the parameters of both layers have: extents, strides, dilation and padding.
template <class Parameters>
void take_window(Filter& filter, const Parameters& p, std::size_t k_width, std::size_t k_height,
                 const char* call) {
  require_described(p.i_desc, BNNSDataLayoutImageCHW, call);
  require_described(p.o_desc, BNNSDataLayoutImageCHW, call);
  for (int axis = 0; axis < 3; ++axis) {
    filter.in[axis] = p.i_desc.size[axis];
    filter.out[axis] = p.o_desc.size[axis];
  }
  require(p.activation.function == BNNSActivationFunctionIdentity, call,
          "the double knows no activation but identity");
  require(p.bias.data == nullptr, call, "the double knows no bias");
  const bool symmetric = p.x_padding > 0 || p.y_padding > 0;
  require(!symmetric || p.pad[0] + p.pad[1] + p.pad[2] + p.pad[3] == 0, call,
          "pad is ignored where x_padding or y_padding is given");
  // Before and after, columns first.
  const std::size_t turned = reads("padding") ? 1 : 0;
  const std::size_t pad[2][2] = {{p.pad[0 + turned], p.pad[1 - turned]},
                                 {p.pad[2 + turned], p.pad[3 - turned]}};
  const std::size_t after[2] = {symmetric ? p.x_padding : pad[0][1],
                                symmetric ? p.y_padding : pad[1][1]};
  filter.window = {{k_width, k_height},
                   {p.x_stride, p.y_stride},
                   {p.x_dilation_stride, p.y_dilation_stride},
                   {symmetric ? p.x_padding : pad[0][0], symmetric ? p.y_padding : pad[1][0]}};
  require_window(filter, after, call);
  if (reads("dilation")) filter.window.dilation[0] = filter.window.dilation[1] = 1;
}

// A gradient's memory: of these sizes, with data, and samples far enough apart.
float* gradient_memory(const BNNSNDArrayDescriptor& delta, const std::size_t sizes[3],
                       std::size_t batch, std::size_t stride, const char* call);
// A batch of samples: given, and far enough apart.
void require_batch(const void* data, std::size_t batch, std::size_t stride, std::size_t elements,
                   const char* call);

}  // namespace accelerate_double
