#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include <traingraph/mps/image.h>
#include <traingraph/mps/state.h>

// A batch that the library has made comes to Python as one object, a sequence, and goes back without
// a look at its items. A batch that the program has made is a list.
namespace traingraph::python {

template <typename Item>
struct Sequence {
  std::vector<Item> items;
};

}  // namespace traingraph::python

namespace pybind11::detail {

template <typename Item>
struct batch_caster {
  using Batch = std::vector<Item>;
  using Made = traingraph::python::Sequence<Item>;
  PYBIND11_TYPE_CASTER(Batch, const_name("collections.abc.Sequence[") + make_caster<Item>::name +
                                  const_name("]"));

  bool load(handle source, bool convert) {
    if (make_caster<Made> made; made.load(source, false)) {
      value = cast_op<const Made&>(made).items;
      return true;
    }
    list_caster<Batch, Item> list;
    if (!list.load(source, convert)) return false;
    value = cast_op<Batch&&>(std::move(list));
    return true;
  }

  template <typename T>
  static handle cast(T&& batch, return_value_policy, handle parent) {
    return make_caster<Made>::cast(Made{std::forward<T>(batch)}, return_value_policy::move, parent);
  }
};

template <>
struct type_caster<traingraph::mps::ImageBatch> : batch_caster<traingraph::mps::ImagePtr> {};
template <>
struct type_caster<traingraph::mps::StateBatch> : batch_caster<traingraph::mps::StatePtr> {};

}  // namespace pybind11::detail
