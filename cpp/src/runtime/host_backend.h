#pragma once

#include "runtime/backend.h"

namespace traingraph {

// One line of a host backend's table: how one op is supported, laid out and prepared there.
struct KernelEntry {
  ir::Op op;
  Support (*supports)(const ir::Graph&, const ir::Node&);
  std::unique_ptr<Kernel> (*make)(const ir::Graph&, const ir::Node&);
  // null: plain layouts only
  LayoutChoice (*layouts)(const ir::Graph&, const ir::Node&) = nullptr;
  // null: takes no epilogue
  bool (*fuses)(const ir::Graph&, const ir::Node&, const ir::ScalarList&,
                const std::vector<ir::ValueId>&) = nullptr;
};

// A backend made of tables of kernels over host memory. Entries are tried in order, so a second
// table serves as fallback.
class HostBackend : public Backend {
 public:
  Support supports(const ir::Graph& graph, const ir::Node& node) const override;
  bool fuses(const ir::Graph& graph, const ir::Node& producer, const ir::ScalarList& list,
             const std::vector<ir::ValueId>& extra) const override;
  LayoutChoice layouts(const ir::Graph& graph, const ir::Node& node) const override;
  std::unique_ptr<Executable> compile(const ir::Graph& graph,
                                      const std::vector<ir::NodeId>& nodes) const override;
  std::shared_ptr<std::byte> allocate(std::size_t bytes) const override;

 protected:
  virtual const std::vector<KernelEntry>& table() const = 0;

 private:
  // The first entry that supports the node; null with the reasons collected.
  const KernelEntry* find(const ir::Graph& graph, const ir::Node& node, std::string* reasons) const;
};

// Plain layouts for every operand of a node.
LayoutChoice plain_layouts(const ir::Node& node);

}  // namespace traingraph
