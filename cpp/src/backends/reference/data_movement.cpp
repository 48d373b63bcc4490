// Concatenate, slice, pad and transpose of elements of any type.
#include <algorithm>

#include "backends/reference/any_type.h"

namespace traingraph::reference {
namespace {

// A dense tensor as `outer` runs of `run` elements: everything from one axis on is contiguous.
struct Runs {
  std::int64_t outer = 1, run = 1;

  Runs(const Shape& shape, int axis) {
    for (int k = 0; k < static_cast<int>(shape.size()); ++k) {
      (k < axis ? outer : run) *= shape[static_cast<std::size_t>(k)];
    }
  }
};

}  // namespace

// x_i (…, D_i, …) → y (…, Σ D_i, …).
template <class T>
void concatenate(const Call& call) {
  const int axis = call.get<ir::AxisAttributes>().axis;
  const Runs to(call.out_shape(0), axis);
  std::int64_t at = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Runs from(call.in_shape(i), axis);
    for (std::int64_t o = 0; o < from.outer; ++o) {
      std::copy_n(call.in<T>(i) + o * from.run, from.run, call.out<T>(0) + o * to.run + at);
    }
    at += from.run;
  }
}

// x (…, D, …) → y (…, extent, …) from element `start` on.
template <class T>
void slice(const Call& call) {
  const auto& attributes = call.get<ir::SliceAttributes>();
  const Runs from(call.in_shape(0), attributes.axis);
  const Runs to(call.out_shape(0), attributes.axis);
  const std::int64_t start = to.run / attributes.extent * attributes.start;
  for (std::int64_t o = 0; o < to.outer; ++o) {
    std::copy_n(call.in<T>(0) + o * from.run + start, to.run, call.out<T>(0) + o * to.run);
  }
}

// x_i (…, D_i, …) → y (…, extent, …), each from its start on, zeros around them.
template <class T>
void pad(const Call& call) {
  const auto& attributes = call.get<ir::PadAttributes>();
  const Runs to(call.out_shape(0), attributes.axis);
  const std::int64_t step = to.run / attributes.extent;
  for (std::int64_t o = 0; o < to.outer; ++o) {
    T* const row = call.out<T>(0) + o * to.run;
    T* at = row;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      const std::int64_t run = Runs(call.in_shape(i), attributes.axis).run;
      T* const start = row + attributes.starts[i] * step;
      std::fill(at, start, T(0));
      at = std::copy_n(call.in<T>(i) + o * run, run, start);
    }
    std::fill(at, row + to.run, T(0));
  }
}

// Axis k of y is axis axes[k] of x.
template <class T>
void transpose(const Call& call) {
  const auto& axes = call.get<ir::TransposeAttributes>().axes;
  const auto strides = dense_strides(call.in_shape(0));
  const Shape& shape = call.out_shape(0);
  const std::int64_t count = element_count(shape);
  for (std::int64_t element = 0; element < count; ++element) {
    std::int64_t offset = 0;
    std::int64_t rest = element;
    for (std::size_t k = shape.size(); k-- > 0;) {
      offset += rest % shape[k] * strides[static_cast<std::size_t>(axes[k])];
      rest /= shape[k];
    }
    call.out<T>(0)[element] = call.in<T>(0)[offset];
  }
}

TRAINGRAPH_FOR_ANY_TYPE(concatenate)
TRAINGRAPH_FOR_ANY_TYPE(slice)
TRAINGRAPH_FOR_ANY_TYPE(pad)
TRAINGRAPH_FOR_ANY_TYPE(transpose)

}  // namespace traingraph::reference
