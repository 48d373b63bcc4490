#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "backends/metal/encoding.h"
#include "ir/graph.h"
#include "runtime/kernel.h"

// Kernels of the Metal backend: addresses are those of shared memory, and work is encoded on the
// command buffer of a run.
namespace traingraph::metal {

// One op prepared for fixed shapes.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Scratch that must be there while it runs; known before.
  virtual std::size_t workspace_bytes() const { return 0; }
  virtual void encode(Pointers pointers, Encoding& encoding) = 0;
};

// One line of the table: how one op is supported, laid out and prepared.
struct KernelEntry {
  ir::Op op;
  Support (*supports)(const ir::Graph&, const ir::Node&);
  std::unique_ptr<Kernel> (*make)(const ir::Graph&, const ir::Node&, Device&);
  // null: plain layouts only
  LayoutChoice (*layouts)(const ir::Graph&, const ir::Node&) = nullptr;
  // null: takes no epilogue
  bool (*fuses)(const ir::Graph&, const ir::Node&, const ir::ScalarList&,
                const std::vector<ir::ValueId>&) = nullptr;
};

// Every op's kernels, tried in order: those of Metal Performance Shaders before own shaders.
const std::vector<KernelEntry>& table();

}  // namespace traingraph::metal
