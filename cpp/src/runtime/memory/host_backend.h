#pragma once

#include "runtime/table_backend.h"

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

// A backend made of tables of kernels over host memory.
class HostBackend : public TableBackend<KernelEntry> {
 public:
  std::unique_ptr<Executable> compile(const ir::Graph& graph,
                                      const std::vector<ir::NodeId>& nodes) const override;
  std::shared_ptr<std::byte> allocate(std::size_t bytes) const override;
};

}  // namespace traingraph
