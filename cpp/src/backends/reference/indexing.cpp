// Gather, scatter with its gradient, select, and the check of indices, for elements of any type.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backends/reference/any_type.h"

namespace traingraph::reference {
namespace {

// Visits what `indices` pick from a tensor of shape `whole`, in row-major order: the position among
// the picked elements (shape `picked`), and the offset of the element in the tensor; -1 for an
// index outside.
template <class Index, class Visit>
void visit_picked(const Shape& whole, const Shape& picked, const Index* indices, bool slices,
                  int axis, Visit visit) {
  const auto strides = dense_strides(whole);
  const std::size_t rank = whole.size();
  const auto at = static_cast<std::size_t>(axis);
  std::array<std::int64_t, 8> index{};
  const std::int64_t count = element_count(picked);
  for (std::int64_t element = 0; element < count; ++element) {
    const std::int64_t place = static_cast<std::int64_t>(indices[slices ? index[at] : element]);
    if (place < 0 || place >= whole[at]) {
      visit(element, std::int64_t{-1});
    } else {
      std::int64_t offset = place * strides[at];
      for (std::size_t k = 0; k < rank; ++k) {
        if (k != at) offset += index[k] * strides[k];
      }
      visit(element, offset);
    }
    for (std::size_t k = rank; k-- > 0;) {
      if (++index[k] < picked[k]) break;
      index[k] = 0;
    }
  }
}

// The same for the indices at input `i`, of either integer type.
template <class Visit>
void visit_picked(const Call& call, std::size_t i, const Shape& whole, const Shape& picked,
                  int axis, Visit visit) {
  const bool slices = call.in_shape(i).size() == 1 && whole.size() != 1;
  if (call.inputs[i].data_type == DataType::kInt32) {
    visit_picked(whole, picked, call.in<std::int32_t>(i), slices, axis, visit);
  } else {
    visit_picked(whole, picked, call.in<std::int64_t>(i), slices, axis, visit);
  }
}

}  // namespace

// tensor, indices → y, of the shape they pick.
template <class T>
void gather(const Call& call) {
  const T* const tensor = call.in<T>(0);
  T* const y = call.out<T>(0);
  visit_picked(call, 1, call.in_shape(0), call.out_shape(0), call.get<ir::AxisAttributes>().axis,
               [&](std::int64_t element, std::int64_t offset) {
                 y[element] = offset < 0 ? T(0) : tensor[offset];
               });
}

// Integers wrap around, as those of NumPy and of the devices do.
template <class T>
T sum(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) {
    return x + y;
  } else {
    return static_cast<T>(static_cast<std::uint64_t>(x) + static_cast<std::uint64_t>(y));
  }
}

// values, indices [, tensor, else zeros] → y, of the tensor's shape.
template <class T>
void scatter(const Call& call) {
  const auto& attributes = call.get<ir::ScatterAttributes>();
  const T* const values = call.in<T>(0);
  T* const y = call.out<T>(0);
  const std::int64_t count = element_count(call.out_shape(0));
  if (call.inputs.size() > 2) {
    std::copy_n(call.in<T>(2), count, y);
  } else {
    std::fill_n(y, count, T(0));
  }
  visit_picked(call, 1, call.out_shape(0), call.in_shape(0), attributes.axis,
               [&](std::int64_t element, std::int64_t offset) {
                 if (offset < 0) return;
                 y[offset] = attributes.adds ? sum(y[offset], values[element]) : values[element];
               });
}

// dy, indices → dvalues and dtensor, both overwritten, and who wrote each element of the tensor.
template <class T>
void scatter_gradient(const Call& call) {
  const int axis = call.get<ir::AxisAttributes>().axis;
  const T* const dy = call.in<T>(0);
  T* const dvalues = call.out<T>(0);
  T* const dtensor = call.out<T>(1);
  std::int64_t* const writers = call.out<std::int64_t>(2);
  const std::int64_t count = element_count(call.in_shape(0));
  std::fill_n(writers, count, std::int64_t{-1});
  visit_picked(call, 1, call.in_shape(0), call.out_shape(0), axis,
               [&](std::int64_t element, std::int64_t offset) {
                 if (offset >= 0) writers[offset] = element;
               });
  for (std::int64_t k = 0; k < count; ++k) dtensor[k] = writers[k] < 0 ? dy[k] : T(0);
  visit_picked(call, 1, call.in_shape(0), call.out_shape(0), axis,
               [&](std::int64_t element, std::int64_t offset) {
                 const bool stayed = offset >= 0 && writers[offset] == element;
                 dvalues[element] = stayed ? dy[offset] : T(0);
               });
}

// indices [, found] → found: see ops/indexing.cpp.
template <class T>
void check_indices(const Call& call) {
  const auto& a = call.get<ir::IndexCheckAttributes>();
  auto* const found = call.out<std::int64_t>(0);
  std::fill_n(found, 3, std::int64_t{-1});
  if (call.inputs.size() == 2 && call.in<std::int64_t>(1)[0] >= 0) {
    std::copy_n(call.in<std::int64_t>(1), 3, found);
    return;
  }
  const auto look = [&](const auto* indices) {
    for (std::int64_t k = 0; k < element_count(call.in_shape(0)); ++k) {
      const auto index = static_cast<std::int64_t>(indices[k]);
      if (index >= a.lowest && index < a.end) continue;
      found[0] = a.number;
      found[1] = k;
      found[2] = index;
      return;
    }
  };
  if (call.inputs[0].data_type == DataType::kInt32) return look(call.in<std::int32_t>(0));
  look(call.in<std::int64_t>(0));
}

// condition (one byte per element), x [, y, else zero] → y, each read through strides that are 0
// along broadcast axes.
template <class T>
void select(const Call& call) {
  const bool where_not = call.get<ir::SelectAttributes>().where_not;
  BroadcastOffsets places(call);
  for (std::int64_t element = 0; element < places.count(); ++element, places.next()) {
    const bool first = (call.in<std::uint8_t>(0)[places.offset(0)] != 0) != where_not;
    const std::size_t taken = first ? 1 : 2;
    call.out<T>(0)[element] =
        taken < call.inputs.size() ? call.in<T>(taken)[places.offset(taken)] : T(0);
  }
}

TRAINGRAPH_FOR_ANY_TYPE(gather)
TRAINGRAPH_FOR_ANY_TYPE(scatter)
TRAINGRAPH_FOR_ANY_TYPE(scatter_gradient)
TRAINGRAPH_FOR_ANY_TYPE(check_indices)
TRAINGRAPH_FOR_ANY_TYPE(select)

}  // namespace traingraph::reference
