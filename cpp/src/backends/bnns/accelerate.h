// What the kernels of this folder share: BNNS's filters and descriptors in our terms.
#pragma once

#include <Accelerate/Accelerate.h>

#include <utility>

#include <traingraph/errors.h>

#include "runtime/memory/host_backend.h"

namespace traingraph::bnns {

// Refuses operands of another type than float32, layouts other than plain, and epilogues.
Support plain_float32(const ir::Graph& graph, const ir::Node& node);

// Raises DeviceError where a call of Accelerate has not returned 0.
void check(int status, const char* call);

inline const float* read(Pointers pointers, ir::ValueId id) {
  return reinterpret_cast<const float*>(pointers[id]);
}
inline float* write(Pointers pointers, ir::ValueId id) {
  return reinterpret_cast<float*>(pointers[id]);
}
inline std::size_t extent(std::int64_t of) { return static_cast<std::size_t>(of); }
inline std::size_t elements(const Shape& shape) { return extent(element_count(shape)); }

// --- descriptors -------------------------------------------------------------------------------
// BNNS lists extents innermost first, and a stride of 0 means dense. The batch is no axis: calls
// over batches take the distance between two samples.

// One sample of x (N, C, H, W).
BNNSNDArrayDescriptor image(const Shape& x);
// Weights (O, I, kh, kw) at `data`.
BNNSNDArrayDescriptor convolution_weights(const Shape& weights, float* data);
BNNSNDArrayDescriptor vector(std::size_t elements, float* data);

// --- windows -----------------------------------------------------------------------------------

// Strides, dilation and padding of a layer's parameters; BNNS calls columns x and rows y.
template <class Parameters>
void set_window(Parameters& parameters, const ir::Window& window) {
  parameters.x_stride = extent(window.stride[1]);
  parameters.y_stride = extent(window.stride[0]);
  parameters.x_dilation_stride = extent(window.dilation[1]);
  parameters.y_dilation_stride = extent(window.dilation[0]);
  // left, right, up, down; read where x_padding and y_padding are 0
  parameters.pad[0] = extent(window.padding_before[1]);
  parameters.pad[1] = extent(window.padding_after[1]);
  parameters.pad[2] = extent(window.padding_before[0]);
  parameters.pad[3] = extent(window.padding_after[0]);
}

// --- filters -----------------------------------------------------------------------------------

// Owns what a BNNSFilterCreate… call has returned, null where BNNS refused.
class Filter {
 public:
  explicit Filter(BNNSFilter filter) : filter_(filter) {}
  Filter(Filter&& other) noexcept : filter_(std::exchange(other.filter_, nullptr)) {}
  Filter& operator=(Filter&&) = delete;
  ~Filter() {
    if (filter_ != nullptr) BNNSFilterDestroy(filter_);
  }

  bool exists() const { return filter_ != nullptr; }
  // Raises DeviceError where there is none.
  BNNSFilter get() const {
    if (filter_ == nullptr) throw DeviceError("[bnns] expected a filter but BNNS has created none");
    return filter_;
  }

 private:
  BNNSFilter filter_;
};

// The filter keeps the addresses of weights that it was created with, and reads them at each call.
BNNSFilterParameters client_pointers();

}  // namespace traingraph::bnns
