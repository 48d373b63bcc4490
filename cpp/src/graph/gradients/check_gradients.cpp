// Gradients of a compiled graph beside differences of its loss.
#include <traingraph/check_gradients.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <map>
#include <set>

#include <traingraph/errors.h>

#include "graph/gradients/parameter_check.h"
#include "ir/number_text.h"

namespace traingraph {
namespace {

struct Tolerance {
  double bound;
  double rounding;  // one of the type; 0 where differences are rounded alike
};

Tolerance tolerance_of(const GradientPoint& point) {
  if (point.lowered.lowering.data_type == DataType::kFloat64) return {1e-7, 0};
  switch (point.graph->precision) {
    case Precision::kFloat32:
      return {1e-4, 0x1p-24};
    case Precision::kTf32:
      return {5e-3, 0x1p-11};
    case Precision::kMixedFloat16:
      return {1e-2, 0x1p-11};
    case Precision::kMixedBFloat16:
      return {5e-2, 0x1p-8};
  }
  throw InternalError("[check_gradients] a precision without a bound");
}

// The first layer that has or reads the tensor, and the tensor's name there.
const Layer* name_row(const GraphState& graph, const TensorPtr& tensor, GradientRow& row) {
  row.parameter = tensor->label();
  for (const NodeRecord& node : graph.nodes) {
    row.layer = node.layer->label();
    for (const auto& [name, parameter] : node.layer->named_parameters()) {
      if (parameter != tensor) continue;
      row.parameter = name;
      return node.layer.get();
    }
    if (std::count(node.sources.begin(), node.sources.end(), tensor) > 0) return node.layer.get();
  }
  return nullptr;
}

// Its position among the graph's layers, as in checkpoints.
std::size_t position_of(const GraphState& graph, const Layer* layer) {
  std::set<const Layer*> seen;
  for (const NodeRecord& node : graph.nodes) {
    seen.insert(node.layer.get());
    if (node.layer.get() == layer) break;
  }
  return seen.size();
}

// Tells rows apart whose layers, which are given in their order, have one label.
void number_layers(const GraphState& graph, const std::vector<const Layer*>& layers,
                   std::vector<GradientRow>& rows) {
  std::map<std::string, std::set<const Layer*>> by_label;
  for (std::size_t k = 0; k < rows.size(); ++k) by_label[rows[k].layer].insert(layers[k]);
  for (std::size_t k = 0; k < rows.size(); ++k) {
    if (by_label.at(rows[k].layer).size() < 2) continue;
    rows[k].layer = std::to_string(position_of(graph, layers[k])) + "." + rows[k].layer;
  }
}

// Of a loss, where no gradient is more than 0.
double size_of(const LossElements& loss) {
  double sum = 0;
  for (double element : loss) sum += std::abs(element);
  return sum > 0 ? sum : 1;
}

std::string rounded(double number) {
  PlainStream text;
  text << std::scientific << std::setprecision(1) << number;
  return text.str();
}

using TableRow = std::vector<std::string>;

std::string table_of(const std::vector<TableRow>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const TableRow& row : rows) {
    for (std::size_t k = 0; k < row.size(); ++k) widths[k] = std::max(widths[k], row[k].size());
  }
  std::string text;
  for (const TableRow& row : rows) {
    std::string line;
    for (std::size_t k = 0; k < row.size(); ++k) {
      line += row[k] + std::string(widths[k] - row[k].size() + 2, ' ');
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace

GradientCheck check_gradients(TrainingGraph& graph, const NamedData& inputs,
                              const NamedData& loss_labels, const NamedData& loss_label_weights) {
  ExecutionArguments arguments;
  arguments.inputs = inputs;
  arguments.loss_labels = loss_labels;
  arguments.loss_label_weights = loss_label_weights;
  const GradientPoint point = gradients_at(graph.state(), arguments);
  const Tolerance tolerance = tolerance_of(point);
  RoundedLosses losses(point, tolerance.rounding);
  const LossElements& loss = losses.exact.at_point();
  for (double element : loss) {
    if (std::isfinite(element)) continue;
    throw NumericError("[check_gradients] expected a finite loss but got " + short_text(element) +
                       ", in float64");
  }
  std::vector<std::unique_ptr<ParameterCheck>> checks;
  double beside = 0;
  for (std::size_t k = 0; k < point.gradients.size(); ++k) {
    checks.push_back(std::make_unique<ParameterCheck>(losses, point.lowered.trained[k],
                                                      point.gradients[k], tolerance.bound));
    beside = std::max(beside, checks.back()->scale());
  }
  if (beside == 0) beside = size_of(loss);
  GradientCheck result;
  std::vector<const Layer*> layers;
  for (std::size_t k = 0; k < checks.size(); ++k) {
    result.rows.push_back(checks[k]->row(beside));
    layers.push_back(name_row(*point.graph, point.lowered.trained[k], result.rows.back()));
  }
  number_layers(*point.graph, layers, result.rows);
  result.ok = std::all_of(result.rows.begin(), result.rows.end(),
                          [](const GradientRow& row) { return row.ok; });
  return result;
}

std::string GradientCheck::to_string() const {
  std::vector<TableRow> table{{"layer", "parameter", "worst element", "gradient", "difference",
                               "error", "bound", "compared", "excluded", ""}};
  for (const GradientRow& row : rows) {
    const std::string element = row.compared == 0   ? "none"
                                : row.worst_element ? traingraph::to_string(*row.worst_element)
                                                    : "a direction";
    table.push_back({row.layer, row.parameter, element, rounded(row.gradient),
                     rounded(row.difference), rounded(row.error), rounded(row.bound),
                     std::to_string(row.compared), std::to_string(row.excluded),
                     row.ok ? "" : "wrong"});
  }
  return table_of(table);
}

}  // namespace traingraph
