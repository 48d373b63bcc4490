// Text forms of a graph: the table of layers with parameter counts, and the DOT digraph.
#include <algorithm>
#include <iomanip>

#include <traingraph/graph.h>
#include <traingraph/message_text.h>

#include "graph/state/graph_state.h"
#include "ir/number_text.h"

namespace traingraph {

GraphSummary Graph::summarized() const {
  const std::lock_guard lock(structure());
  GraphSummary summary;
  std::set<const Tensor*> counted;
  for (const NodeRecord& node : state_->ordered_nodes()) {
    const std::string& label = node.layer->label();
    GraphSummary::Row row{node.layer->id(),
                          node.layer->description() + (label.empty() ? "" : " '" + label + "'")};
    for (const TensorParameter* parameter : node.layer->parameters()) {
      const std::int64_t elements = element_count(parameter->tensor->descriptor().shape);
      row.parameters += elements;
      if (counted.insert(parameter->tensor.get()).second) summary.parameters += elements;
    }
    for (const TensorPtr& result : node.results) {
      row.results += (row.results.empty() ? "" : " ") + to_string(result->descriptor().shape);
    }
    summary.rows.push_back(std::move(row));
  }
  return summary;
}

std::string Graph::summary() const {
  const GraphSummary summary = summarized();
  int width = 4;  // of numbers that count all layers of the process
  for (const GraphSummary::Row& row : summary.rows) {
    width = std::max(width, static_cast<int>(std::to_string(row.id).size()));
  }
  PlainStream text;
  const auto line = [&](const auto& id, const std::string& layer, const std::string& result,
                        const auto& count) {
    text << std::left << std::setw(width) << id << "  " << padded(layer, 42) << "  "
         << padded(result, 22) << "  " << count << "\n";
  };
  line("id", "layer", "result", "parameters");
  for (const GraphSummary::Row& row : summary.rows) {
    line(row.id, shortened(row.layer, kMostShown), row.results, row.parameters);
  }
  text << "parameters: " << summary.parameters << "\n";
  return text.str();
}

std::string Graph::summarized_dot_description() const {
  const std::lock_guard lock(structure());
  auto quoted = [](std::string text) {
    std::string result = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') result += '\\';
      result += c == '\n' ? std::string("\\n") : std::string(1, c);
    }
    return result + "\"";
  };
  PlainStream text;
  text << "digraph traingraph {\n";
  std::size_t number = 0;
  std::set<const Tensor*> computed, drawn;
  for (const NodeRecord& node : state_->ordered_nodes()) {
    for (const TensorPtr& result : node.results) computed.insert(result.get());
  }
  for (const NodeRecord& node : state_->ordered_nodes()) {
    const std::string name = "layer" + std::to_string(number++);
    text << "  " << name << " [shape=box, label=" << quoted(node.layer->description()) << "];\n";
    for (const TensorPtr& source : node.sources) {
      if (!computed.contains(source.get()) && drawn.insert(source.get()).second) {
        text << "  t" << source->id() << " [shape=ellipse, label="
             << quoted(source->label() + " " + to_string(source->descriptor().shape)) << "];\n";
      }
      const bool stopped = state_->stopped.contains(source);
      text << "  t" << source->id() << " -> " << name << (stopped ? " [style=dashed]" : "")
           << ";\n";
    }
    for (const TensorPtr& result : node.results) {
      drawn.insert(result.get());
      text << "  t" << result->id()
           << " [shape=ellipse, label=" << quoted(to_string(result->descriptor().shape)) << "];\n";
      text << "  " << name << " -> t" << result->id() << ";\n";
    }
  }
  text << "}\n";
  return text.str();
}

}  // namespace traingraph
