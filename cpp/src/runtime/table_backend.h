// A backend made of a table of kernels, of which the first entry that supports a node takes it.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include <traingraph/errors.h>

#include "runtime/backend.h"
#include "runtime/verbose.h"

namespace traingraph {

// Plain layouts for every operand of a node.
inline LayoutChoice plain_layouts(const ir::Node& node) {
  return {std::vector<ir::Layout>(node.inputs.size()),
          std::vector<ir::Layout>(node.outputs.size())};
}

// Those that the operands have: of an op that reads and writes any layout, so it asks for none.
inline LayoutChoice layouts_as_they_are(const ir::Graph& graph, const ir::Node& node) {
  LayoutChoice choice;
  for (ir::ValueId id : node.inputs) choice.inputs.push_back(graph.value(id).layout);
  for (ir::ValueId id : node.outputs) choice.outputs.push_back(graph.value(id).layout);
  return choice;
}

// An entry has `op`, `supports`, `make`, `layouts` (null: plain only) and `fuses` (null: takes no
// epilogue). Entries are tried in order, so a second table serves as fallback.
template <class Entry>
class TableBackend : public Backend {
 public:
  Support supports(const ir::Graph& graph, const ir::Node& node) const override {
    std::string reasons;
    if (find(graph, node, &reasons) != nullptr) return {};
    if (reasons.empty()) reasons = "no kernel for " + std::string(ir::name(node.op));
    return Support::no(reasons);
  }

  bool fuses(const ir::Graph& graph, const ir::Node& producer, const ir::ScalarList& list,
             const std::vector<ir::ValueId>& extra) const override {
    const Entry* entry = find(graph, producer, nullptr);
    return entry != nullptr && entry->fuses != nullptr &&
           entry->fuses(graph, producer, list, extra);
  }

  LayoutChoice layouts(const ir::Graph& graph, const ir::Node& node) const override {
    const Entry* entry = find(graph, node, nullptr);
    if (entry == nullptr || entry->layouts == nullptr) return plain_layouts(node);
    return entry->layouts(graph, node);
  }

 protected:
  virtual const std::vector<Entry>& table() const = 0;

  // Calls make(entry, node number) for each of the nodes. Raises Unsupported, listing the reasons
  // of every op that no entry takes.
  template <class Make>
  void for_each_entry(const ir::Graph& graph, const std::vector<ir::NodeId>& nodes,
                      const Make& make) const {
    std::string refused;
    for (ir::NodeId id : nodes) {
      const ir::Node& node = graph.node(id);
      std::string reasons;
      if (const Entry* entry = find(graph, node, &reasons)) {
        make(*entry, id);
        continue;
      }
      refused += "\n  " + std::string(ir::name(node.op)) + ir::where(graph, node) + ": " +
                 (reasons.empty() ? "no kernel" : reasons);
    }
    if (!refused.empty()) {
      throw Unsupported("[compile] backend '" + this->name() + "' cannot run" + refused);
    }
  }

 private:
  // The first entry that supports the node; null with the reasons collected.
  const Entry* find(const ir::Graph& graph, const ir::Node& node, std::string* reasons) const {
    for (const Entry& entry : table()) {
      if (entry.op != node.op) continue;
      const Support support = entry.supports(graph, node);
      if (support.yes) return &entry;
      if (verbose_dispatch()) {
        std::fprintf(stderr, "traingraph: dispatch: %s refuses %s%s: %s\n", this->name().c_str(),
                     ir::name(node.op), ir::where(graph, node).c_str(), support.reason.c_str());
      }
      if (reasons != nullptr) *reasons += (reasons->empty() ? "" : "; ") + support.reason;
    }
    return nullptr;
  }
};

}  // namespace traingraph
