#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <type_traits>

#include <traingraph/ownership.h>

// Python's collector of cycles, and objects of Python that the core keeps.
//
// A data source may refer to the graph that is made of it: object -> MPSNNGraph in Python, then
// kernels and nodes of the core, then the object again. In the core several owners share one
// reference, which none of them may show to the collector as its own. So before a full collection
// the core's owners are counted (traingraph/ownership.h). Where all owners of an object of the core
// are found, an object of Python stands for it until the collection ends. These are linked as the
// core's objects are, so that the collector walks each link once; what anybody else owns, such as a
// run, is left alone and stays.
namespace traingraph::python {

// Visits what a wrapper's object shares in.
using VisitInstance = void (*)(pybind11::detail::value_and_holder& place,
                               OwnershipVisitor& visitor);

template <typename T, typename Holder>
constexpr VisitInstance visit_instance() {
  constexpr bool owns =
      requires(const T& object, OwnershipVisitor& visitor) { object.visit_owned(visitor); };
  if constexpr (!owns) {
    return nullptr;
  } else if constexpr (std::is_same_v<Holder, std::shared_ptr<T>>) {
    return [](pybind11::detail::value_and_holder& place, OwnershipVisitor& visitor) {
      visitor(place.holder<Holder>());
    };
  } else {
    return [](pybind11::detail::value_and_holder& place, OwnershipVisitor& visitor) {
      static_cast<const T*>(place.value_ptr())->visit_owned(visitor);
    };
  }
}

// Of every class: its objects are known to the collector.
pybind11::custom_type_setup collected(VisitInstance visit);

// Objects of these classes that were made so far. Who has counted owners counts again when there
// are more.
extern std::uint64_t objects_made;

void bind_collector();

}  // namespace traingraph::python
