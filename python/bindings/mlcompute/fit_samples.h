#pragma once

#include <string>

#include <traingraph/fit.h>

#include "convert/convert.h"

namespace traingraph::python {

// What a fit is fed, as it was declared.
struct Declared {
  explicit Declared(const TrainingGraph& graph)
      : inputs(graph.inputs()),
        loss_labels(graph.loss_labels()),
        loss_label_weights(graph.loss_label_weights()) {}
  NamedTensors inputs, loss_labels, loss_label_weights;
};

// A dictionary by declared name, or the one array where one tensor is declared. Raises TypeError
// for batches and for pairs of inputs and labels.
NamedData samples(const py::object& given, const NamedTensors& declared, const Where& where,
                  const char* role);
// (inputs, labels) or (inputs, labels, label_weights). `of`: "validation's ".
SampleData to_samples(const Declared& declared, py::handle value, const Where& where,
                      const std::string& of);

}  // namespace traingraph::python
