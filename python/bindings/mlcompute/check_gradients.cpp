// Binds check_gradients() and its results, GradientCheck and GradientRow.
#include <pybind11/stl.h>

#include "bindings.h"
#include "classes/signature.h"
#include "convert/convert.h"
#include "convert/names.h"

namespace traingraph::python {
namespace {

constexpr const char* kSubject = "check_gradients";
constexpr const char* kDocument =
    "Compares the gradients that a compiled graph computes on its device, as its next step would, "
    "with central differences of the same loss in float64 on the reference backend. The result "
    "says ok, has a row for each trained parameter, and is a table as a string. Shapes: those of "
    "the declared tensors. Types: as execute takes them. Of a parameter of more than 1,024 "
    "elements the one with the largest gradient is compared, 63 that are drawn, and 4 directions. "
    "Weights, the optimizer's buffers and time step, running statistics, random state and begun "
    "steps stay as they are.\n\n"
    "Bounds: float64 1e-7, float32 1e-4, TF32 5e-3, float16 1e-2, bfloat16 5e-2, relative to the "
    "largest element of the parameter's gradient, or of the graph's gradients where differences "
    "cannot tell it from 0. Where rounding of the loss hides so much, the bound is what "
    "differences can show.\n\n"
    "Kinks: an element that deviates is excluded, and counted, where the loss itself says that it "
    "has no slope there: at each of seven steps from 6.4e-3 to 2.4e-8 the quotients of two "
    "neighbouring steps, or those to both sides, disagree by more than a quarter of the bound and "
    "a "
    "64th of the deviation (ReLU at 0, ties of a maximum); or, except in float64, one rounding of "
    "every number changes the quotient by half of the deviation or more. A parameter of which "
    "every element is excluded is not ok.\n\n"
    "Errors: those of execute for the data; ValueError for a graph that was not compiled, or has "
    "no loss or nothing to train; NotImplementedError for linked graphs and user gradients, whose "
    "loss is elsewhere; FloatingPointError for a loss that is not finite. Example: "
    "print(check_gradients(training, {'x': x}, {'y': y})).";

GradientCheck check(const Arguments& given) {
  const auto training = given.get<std::shared_ptr<TrainingGraph>>("graph");
  const auto data = [&](const NamedTensors& declared, const char* argument, const char* role) {
    return named_data(given[argument], declared, kSubject, argument, role, Access::kRead);
  };
  const NamedData inputs_data = data(training->inputs(), "inputs_data", "input");
  const NamedData labels_data = data(training->loss_labels(), "loss_labels_data", "loss label");
  const NamedData weights_data =
      data(training->loss_label_weights(), "loss_label_weights_data", "loss label weight");
  const ReleasedGil released;
  return check_gradients(*training, inputs_data, labels_data, weights_data);
}

}  // namespace

void bind_check_gradients(py::module_& module) {
  const std::string arrays = ": Mapping[str, ArrayLike | MLCTensorData]";
  def_function(module, kSubject, "GradientCheck",
               {"graph: MLCTrainingGraph, inputs_data" + arrays + ", loss_labels_data" + arrays +
                " | None = None, loss_label_weights_data" + arrays + " | None = None, *"},
               kDocument, check);
}

}  // namespace traingraph::python
