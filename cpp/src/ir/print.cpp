// Prints a graph as text: one line per op with results, types, layouts, attributes and layer.
#include <type_traits>

#include "ir/graph.h"
#include "ir/number_text.h"

namespace traingraph::ir {
namespace {

std::string text_of(const ScalarList& list) {
  return list.empty() ? "" : "{" + to_string(list) + "}";
}
std::string text_of(bool value) { return value ? "yes" : ""; }
std::string text_of(int value) { return std::to_string(value); }
std::string text_of(std::int64_t value) { return std::to_string(value); }
std::string text_of(std::uint64_t value) { return std::to_string(value); }
std::string text_of(DataType value) { return name(value); }
std::string text_of(Coefficients value) {
  constexpr const char* kNames[] = {"", "result", "given", "alone"};
  return kNames[static_cast<std::size_t>(value)];
}
template <class E>
  requires std::is_enum_v<E>
std::string text_of(E value) {
  return std::to_string(static_cast<int>(value));
}
std::string text_of(const std::vector<DataType>& values) {
  std::string text;
  for (DataType value : values) text += std::string(text.empty() ? "" : ",") + name(value);
  return "(" + text + ")";
}
std::string text_of(double value) {
  PlainStream text;
  text << value;
  return text.str();
}
std::string text_of(const std::vector<ScalarList>& lists) {
  std::string text;
  for (const ScalarList& list : lists) text += (text.empty() ? "" : ", ") + text_of(list);
  return "(" + text + ")";
}
template <class T>
std::string text_of(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) text += (text.empty() ? "" : ",") + short_text(value);
  return "(" + text + ")";
}
std::string text_of(const std::string& value) { return value; }
std::string text_of(const std::vector<std::pair<std::string, double>>& numbers) {
  std::string text;
  for (const auto& [name, number] : numbers) {
    text += (text.empty() ? "" : ", ") + name + " " + text_of(number);
  }
  return "(" + text + ")";
}
std::string text_of(const Window& window) {
  auto two = [](const std::int64_t (&v)[2]) {
    return std::to_string(v[0]) + "x" + std::to_string(v[1]);
  };
  std::string text = two(window.kernel);
  if (window.stride[0] * window.stride[1] != 1) text += " stride " + two(window.stride);
  if (window.dilation[0] * window.dilation[1] != 1) text += " dilation " + two(window.dilation);
  const bool padded = window.padding_before[0] + window.padding_before[1] +
                          window.padding_after[0] + window.padding_after[1] !=
                      0;
  if (padded) {
    text += " padding " + two(window.padding_before) + "/" + two(window.padding_after);
  }
  return text;
}

struct FieldPrinter {
  template <class T>
  void operator()(const char* field, const T& value) {
    const std::string value_text = text_of(value);
    if (value_text.empty()) return;
    text += (text.empty() ? "" : ", ") + std::string(field) + "=" + value_text;
  }
  template <class T>
  void unless_empty(const char* field, const T& value) {
    if (value != T{}) (*this)(field, value);
  }
  template <class T>
  void unprinted(const char*, const T&) {}

  std::string text;
};

void print_value(std::ostream& text, const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  text << "%" << id << " " << to_string(value.type);
  if (!value.layout.plain()) text << " layout " << to_string(value.layout);
  if (value.writes != kNone) text << " writes %" << value.writes;
  if (value.keep) text << " keep";
}

}  // namespace

std::string to_string(const Attributes& attributes) {
  FieldPrinter printer;
  std::visit([&](const auto& a) { a.fields(a, printer); }, attributes);
  return printer.text;
}

std::string to_string(const Graph& graph) {
  PlainStream text;
  constexpr const char* kSources[] = {"node", "bound", "parameter", "step", "constant"};
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    if (value.source == Source::node) continue;
    text << kSources[static_cast<std::size_t>(value.source)] << " ";
    print_value(text, graph, static_cast<ValueId>(v));
    text << " '" << value.name << "'\n";
  }
  int phase = -1;
  for (const Node& node : graph.nodes) {
    if (static_cast<int>(node.phase) != phase) {
      phase = static_cast<int>(node.phase);
      text << name(node.phase) << ":\n";
    }
    text << "  ";
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      text << (k > 0 ? ", " : "");
      print_value(text, graph, node.outputs[k]);
    }
    text << " = " << name(node.op) << "(";
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      text << (k > 0 ? ", %" : "%") << node.inputs[k];
    }
    text << ")";
    const std::string attributes = to_string(node.attributes);
    if (!attributes.empty()) text << " [" << attributes << "]";
    text << where(graph, node) << "\n";
  }
  return text.str();
}

}  // namespace traingraph::ir
