// Into which parts a convolution or one of its gradients is cut. Parts follow from shapes and
// layouts alone, and each is computed by one thread, so that no sum depends on their number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "backends/cpu/onednn/kernel.h"

namespace traingraph::cpu {

// A tensor in equal parts along axis 0 or 1. A part consists of `runs` pieces of `bytes` each;
// between two of them lie those of the other parts.
struct Slices {
  std::int64_t runs;
  std::size_t bytes;
};
// Nothing where a part would share blocks with another one, or come in smaller pieces.
std::optional<Slices> slices_of(const ir::Type& type, const ir::Layout& layout, int axis,
                                std::int64_t count);

struct ConvolutionCut {
  std::int64_t images = 1;  // of a part
  std::int64_t ranges = 1;  // of so many images; the last one may have fewer
  std::int64_t slices = 1;  // of channels: x's for gradient_data, else y's
  std::int64_t parts() const { return ranges * slices; }
};
ConvolutionCut cut_of(const ir::Graph& graph, const ir::Node& node, double operations);

// `node` alone, over so many samples and one of so many slices of channels. Its addresses are the
// inputs', the result's and the workspace's, in this order.
std::unique_ptr<Kernel> make_part(const ir::Graph& graph, const ir::Node& node, MakeKernel make,
                                  std::int64_t samples, std::int64_t slices);
// The node in parts, each by a kernel of `make`, on at most so many threads.
std::unique_ptr<Kernel> make_parts(const ir::Graph& graph, const ir::Node& node,
                                   const ConvolutionCut& cut, MakeKernel make, int threads);

}  // namespace traingraph::cpu
