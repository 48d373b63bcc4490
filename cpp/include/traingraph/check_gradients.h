// Gradients of a compiled graph beside finite differences of its loss.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <traingraph/export.h>
#include <traingraph/graph.h>

namespace traingraph {

// How far the gradient of one parameter is from differences of the loss.
struct TRAINGRAPH_API GradientRow {
  std::string layer;      // label of the first layer that reads it
  std::string parameter;  // its name there, or the label of a tensor that no layer holds
  // Indices in the tensor's shape; null where a direction is worse than every element, and where
  // nothing was compared.
  std::optional<Shape> worst_element;
  double error = 0;  // of the worst one, relative to the largest element of the gradient
  double bound = 0;
  double gradient = 0;        // what the graph gives there
  double difference = 0;      // what differences give there
  std::int64_t compared = 0;  // elements and directions
  std::int64_t excluded = 0;  // others, at a kink
  bool ok = false;            // something was compared, and no error is above the bound
  bool operator==(const GradientRow&) const = default;
  static const ClassDescription& class_description();
};

struct TRAINGRAPH_API GradientCheck {
  bool ok = false;                // all rows are
  std::vector<GradientRow> rows;  // a tensor that several layers share has one

  // A table.
  std::string to_string() const;
  bool operator==(const GradientCheck&) const = default;
  static const ClassDescription& class_description();
};

// Compares the gradients that the compiled graph computes on its device, as its next step would,
// with central differences of the same loss in float64 on the reference backend. Of a parameter of
// more than 1,024 elements: of the one with the largest gradient, of 63 that are drawn, and along 4
// directions. Leaves every number of the graph as it is. Raises what `execute` raises for such
// data, Unsupported for linked graphs and user gradients, NumericError for a loss that is not
// finite.
//
// Bounds are relative to the largest element of the parameter's gradient (where differences cannot
// tell that from 0: of the graph's gradients): float64 1e-7, float32 1e-4, TF32 5e-3, float16 1e-2,
// bfloat16 5e-2. Where rounding of the loss hides so much, they are what differences can show.
//
// An element whose gradient deviates is excluded as a kink where the loss itself says so: at each
// of seven steps from 6.4e-3 to 2.4e-8 the quotients of two neighbouring steps, or those to both
// sides, disagree by more than a quarter of the bound and a 64th of the deviation; or, except in
// float64, one rounding of every number changes the quotient by half of the deviation or more. A
// parameter of which every element is excluded is not ok.
TRAINGRAPH_API GradientCheck check_gradients(TrainingGraph& graph, const NamedData& inputs,
                                             const NamedData& loss_labels = {},
                                             const NamedData& loss_label_weights = {});

}  // namespace traingraph
