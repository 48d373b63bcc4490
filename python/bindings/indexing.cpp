#include <pybind11/stl.h>

#include "bindings.h"
#include "signature.h"

namespace traingraph::python {
namespace {

void bind_split(py::module_& module) {
  auto cls = BoundClass<Split, Layer, std::shared_ptr<Split>>(
      module, "MLCSplitLayer", "Cuts a tensor along one axis; its results are the parts.");
  def_init(cls,
           {"split_count: int, dimension: int = 1",
            "split_section_lengths: collections.abc.Sequence[int], dimension: int = 1"},
           "Shapes: split_count parts of ceil(extent / split_count), the last may be smaller, or "
           "parts of the given lengths. Gradient: joined at the same places. Errors: ValueError "
           "where the lengths do not sum to the extent, or equal parts are fewer than asked for.",
           [](const Arguments& arguments) {
             const auto dimension = arguments.get<std::int64_t>("dimension");
             return arguments.given("split_count")
                        ? std::make_shared<Split>(arguments.get<std::int64_t>("split_count"),
                                                  dimension)
                        : std::make_shared<Split>(arguments.get<Shape>("split_section_lengths"),
                                                  dimension);
           });
  cls.def_property_readonly("dimension", &Split::dimension, "The axis.");
  cls.def_property_readonly("split_count", &Split::split_count, "How many parts were asked for.");
  cls.def_property_readonly(
      "split_section_lengths",
      [](const Split& self) -> std::optional<Shape> {
        if (self.split_section_lengths().empty()) return std::nullopt;
        return self.split_section_lengths();
      },
      "The lengths of the parts; None when split by count.");
}

void bind_scatter(py::module_& module) {
  auto cls = BoundClass<Scatter, Layer, std::shared_ptr<Scatter>>(
      module, "MLCScatterLayer", "A copy of a tensor with values written or added by index.");
  def_init(
      cls, {"dimension: int, reduction_type: MLCReductionType | str"},
      "Sources: values, indices, the tensor to copy. NONE overwrites: of several values for "
      "one element the last in row-major order stays. Gradient: NONE: of the value that stayed "
      "alone, 0 to the copied tensor there; SUM: of every value and of the copied tensor. "
      "Errors: ValueError for another reduction or an index out of range.",
      [](const Arguments& arguments) {
        return std::make_shared<Scatter>(arguments.get<std::int64_t>("dimension"),
                                         arguments.get<ReductionType>("reduction_type"));
      });
  cls.def_property_readonly("dimension", &Scatter::dimension, "The axis that the indices count.");
  cls.def_property_readonly("reduction_type", &Scatter::reduction_type,
                            "NONE overwrites, SUM adds.");
}

}  // namespace

void bind_indexing(py::module_& module) {
  bind_split(module);

  auto gather = BoundClass<Gather, Layer, std::shared_ptr<Gather>>(
      module, "MLCGatherLayer", "Picks from a tensor by index along one axis.");
  def_init(gather, {"dimension: int"},
           "Sources: the tensor, indices. Shapes: indices of one axis pick slices; indices with as "
           "many axes as the tensor pick element by element. Types: int32 or int64 indices. "
           "Gradient: added up where an element was picked. Errors: ValueError for an index out of "
           "range.",
           [](const Arguments& arguments) {
             return std::make_shared<Gather>(arguments.get<std::int64_t>("dimension"));
           });
  gather.def_property_readonly("dimension", &Gather::dimension, "The axis that the indices count.");

  bind_scatter(module);

  auto selection = BoundClass<Selection, Layer, std::shared_ptr<Selection>>(
      module, "MLCSelectionLayer", "Takes each element from one of two tensors.");
  def_init(selection, {""},
           "Sources: a bool condition, x, y, which broadcast as NumPy does; x where the condition "
           "holds. Gradient: to the source that was taken.",
           [](const Arguments&) { return std::make_shared<Selection>(); });
}

}  // namespace traingraph::python
