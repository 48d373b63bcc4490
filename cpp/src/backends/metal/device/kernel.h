// Kernels of the Metal backend: addresses are those of shared memory, and work is encoded on the
// command buffer of a run.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "backends/metal/device/encoding.h"
#include "ir/graph.h"
#include "runtime/kernel.h"

namespace traingraph::metal {

// The operands that a kernel takes and gives as images; its others are memory.
struct ImageOperands {
  struct Source {
    ir::ValueId value;  // of one of the node's inputs
    int reads = 1;      // of each of its images, by one encoding
  };
  std::vector<Source> sources;
  std::vector<ir::ValueId> results;
  // Whether they have to be images. Otherwise the kernel can do with memory, and takes images where
  // another kernel of the run has or wants such.
  bool always = true;

  static ImageOperands all_of(const ir::Node& node) {
    ImageOperands images;
    for (ir::ValueId input : node.inputs) images.sources.push_back({input});
    images.results = node.outputs;
    return images;
  }
};

// One op prepared for fixed shapes.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Scratch that must be there while it runs; known before.
  virtual std::size_t workspace_bytes() const { return 0; }
  // Null: all operands are memory. Kernels with images are an ImageKernel (image_kernel.h).
  virtual const ImageOperands* images() const { return nullptr; }
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

// Every op's kernels, tried in order: those of Metal Performance Shaders, hand-written shaders.
const std::vector<KernelEntry>& table();

}  // namespace traingraph::metal
