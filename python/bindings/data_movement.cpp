#include <pybind11/stl.h>

#include "bindings.h"
#include "signature.h"

namespace traingraph::python {

void bind_data_movement(py::module_& module) {
  auto concatenation = BoundClass<Concatenation, Layer, std::shared_ptr<Concatenation>>(
      module, "MLCConcatenationLayer", "Joins sources along one axis.");
  def_init(concatenation, {"dimension: int = 1"},
           "Shapes: the other extents agree. Gradient: cut at the same places.",
           [](const Arguments& arguments) {
             return std::make_shared<Concatenation>(arguments.get<std::int64_t>("dimension"));
           });
  concatenation.def_property_readonly("dimension", &Concatenation::dimension, "The axis.");

  auto reshape = BoundClass<Reshape, Layer, std::shared_ptr<Reshape>>(
      module, "MLCReshapeLayer", "The same elements in row-major order under another shape.");
  def_init(reshape, {"shape: collections.abc.Sequence[int]"},
           "Errors: ValueError where the counts of elements differ.",
           [](const Arguments& arguments) {
             return std::make_shared<Reshape>(arguments.get<Shape>("shape"));
           });
  reshape.def_property_readonly("shape", &Reshape::shape, "The shape of the result.");

  auto transpose = BoundClass<Transpose, Layer, std::shared_ptr<Transpose>>(
      module, "MLCTransposeLayer", "Reorders the axes.");
  def_init(transpose, {"dimensions: collections.abc.Sequence[int]"},
           "Shapes: axis k of the result is axis dimensions[k] of the source. Errors: ValueError "
           "for anything but a permutation of the axes.",
           [](const Arguments& arguments) {
             return std::make_shared<Transpose>(arguments.get<Shape>("dimensions"));
           });
  transpose.def_property_readonly("dimensions", &Transpose::dimensions,
                                  "The source's axis of each axis of the result.");
}

}  // namespace traingraph::python
