// What a notebook shows of graphs, memory plans and profiles: tables in HTML, without a style sheet
// or a program of their own.
#include <traingraph/graph.h>
#include <traingraph/message_text.h>

#include <algorithm>
#include <cmath>

#include "bindings.h"
#include "classes/described_class.h"

namespace traingraph::python {
namespace {

using Cells = std::vector<std::string>;

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

// The first columns are texts, to the left, the others numbers, to the right.
class Table {
 public:
  Table(const std::string& caption, const Cells& headers, std::size_t texts) : texts_(texts) {
    html_ = "<table><caption>" + escaped(caption) + "</caption><thead>";
    add_row(headers, "th");
    html_ += "</thead><tbody>";
  }
  void add(const Cells& cells) { add_row(cells, "td"); }
  std::string html() const { return html_ + "</tbody></table>"; }

 private:
  void add_row(const Cells& cells, const std::string& tag) {
    html_ += "<tr>";
    for (std::size_t k = 0; k < cells.size(); ++k) {
      const char* const side = k < texts_ ? "left" : "right";
      html_ += "<" + tag + " style=\"text-align:" + side + "\">" +
               escaped(shortened(cells[k], kMostShown)) + "</" + tag + ">";
    }
    html_ += "</tr>";
  }

  std::string html_;
  std::size_t texts_;
};

// --- graphs --------------------------------------------------------------------------------------

std::string table_of(const Graph& graph, const std::string& caption) {
  const GraphSummary summary = graph.summarized();
  Table table(caption, {"layer", "result", "id", "parameters"}, 2);
  for (const GraphSummary::Row& row : summary.rows) {
    table.add({row.layer, row.results, std::to_string(row.id), std::to_string(row.parameters)});
  }
  table.add({"all layers", "", "", std::to_string(summary.parameters)});
  return table.html();
}

// --- memory --------------------------------------------------------------------------------------

std::string table_of(const MemoryPlan& plan) {
  constexpr std::size_t kMost = 50;
  const std::string bytes = std::to_string(plan.total_bytes) + " bytes";
  Table table("MemoryPlan of " + bytes, {"name", "kind", "bytes"}, 2);
  const auto add = [&](const std::string& name, const char* kind, std::size_t size) {
    table.add({name, kind, std::to_string(size)});
  };
  add("arena", "shared", plan.arena_bytes);
  add("persistent", "sum", plan.persistent_bytes);
  add("staging", "sum", plan.staging_bytes);
  add("exchange", "sum", plan.exchange_bytes);
  add("total", "asked for", plan.total_bytes);
  add("libraries", "held", plan.library_bytes);
  if (plan.context_bytes > 0) add("device's context", "held", plan.context_bytes);
  std::vector<MemoryPlan::Entry> entries = plan.entries;
  entries.insert(entries.end(), plan.recomputed.begin(), plan.recomputed.end());
  std::ranges::stable_sort(entries, std::ranges::greater(), &MemoryPlan::Entry::bytes);
  const std::size_t shown = std::min(entries.size(), kMost);
  for (std::size_t k = 0; k < shown; ++k) {
    add(entries[k].name, entries[k].kind.c_str(), entries[k].bytes);
  }
  if (shown == entries.size()) return table.html();
  std::size_t rest = 0;
  for (std::size_t k = shown; k < entries.size(); ++k) rest += entries[k].bytes;
  add(std::to_string(entries.size() - shown) + " smaller ones", "sum", rest);
  return table.html();
}

// --- time ----------------------------------------------------------------------------------------

std::string microseconds(double seconds) {
  // The decimal point whatever the locale.
  std::string digits = std::to_string(std::llround(seconds * 1e7));
  if (digits.size() < 2) digits.insert(0, 1, '0');
  return digits.insert(digits.size() - 1, ".");
}

std::string table_of(const Profile& profile) {
  Table table("Profile of " + microseconds(profile.seconds) + " microseconds",
              {"layer", "forward, us", "gradient, us", "update, us", "sum, us"}, 1);
  const auto add = [&](const Profile::Layer& row) {
    table.add({row.layer, microseconds(row.forward), microseconds(row.gradient),
               microseconds(row.update), microseconds(row.seconds())});
  };
  Profile::Layer total{"all layers"};
  for (Profile::Layer row : profile.layers()) {
    if (row.layer.empty()) row.layer = "(no layer)";
    add(row);
    total.forward += row.forward;
    total.gradient += row.gradient;
    total.update += row.update;
  }
  add(total);
  return table.html();
}

constexpr const char* kDoc = "A table in HTML, for a notebook.";

template <typename T>
void show(const py::module_& module, const char* name) {
  auto cls = described<T>(module, name);
  cls.def("_repr_html_", [](T& self) { return table_of(self); }, kDoc);
}

}  // namespace

void bind_notebook(const py::module_& module) {
  auto graph = described<Graph>(module, "MLCGraph");
  graph.def(
      "_repr_html_",
      [](const py::object& self) {
        return table_of(py::cast<const Graph&>(self), py::cast<std::string>(py::repr(self)));
      },
      kDoc);
  // A text, which a notebook shows as a table where it is the last thing of a cell.
  graph.def(
      "summary",
      [](const py::object& self) {
        const auto& of = py::cast<const Graph&>(self);
        return py::str(py::module_::import("traingraph._notebook")
                           .attr("Summary")(of.summary(), table_of(of, "summary")));
      },
      "A table of layers, result shapes and parameters: a text, and HTML in a notebook.");
  show<MemoryPlan>(module, "MemoryPlan");
  show<Profile>(module, "Profile");
}

}  // namespace traingraph::python
