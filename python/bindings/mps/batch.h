#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <utility>
#include <vector>

#include <traingraph/mps/image.h>
#include <traingraph/mps/state.h>

// A batch that the library made comes to Python as one object, a sequence, and goes back without a
// look at its items. Batches that the program makes are lists or any other sequences.
namespace traingraph::python {

template <typename Item>
struct Batch {
  std::vector<Item> items;
  void visit_owned(OwnershipVisitor& visitor) const
    requires requires(const Item& item) { item->visit_owned(visitor); }
  {
    visitor(items);
  }
};

}  // namespace traingraph::python

namespace pybind11::detail {

template <typename Item>
struct batch_caster {
  using Items = std::vector<Item>;
  using Made = traingraph::python::Batch<Item>;
  PYBIND11_TYPE_CASTER(Items, const_name("collections.abc.Sequence[") + make_caster<Item>::name +
                                  const_name("]"));

  bool load(handle source, bool convert) {
    if (make_caster<Made> made; made.load(source, false)) {
      value = cast_op<const Made&>(made).items;
      return true;
    }
    list_caster<Items, Item> list;
    if (!list.load(source, convert)) return false;
    value = static_cast<Items&&>(std::move(list));
    return true;
  }

  template <typename T>
  static handle cast(T&& items, return_value_policy, handle parent) {
    return make_caster<Made>::cast(Made{std::forward<T>(items)}, return_value_policy::move, parent);
  }
};

template <>
struct type_caster<traingraph::mps::ImageBatch> : batch_caster<traingraph::mps::ImagePtr> {};
template <>
struct type_caster<traingraph::mps::StateBatch> : batch_caster<traingraph::mps::StatePtr> {};

}  // namespace pybind11::detail
