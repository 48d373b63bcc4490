// What the kernels of Winograd's method share: the places of transforms in the workspace, and the
// steps over blocks of tiles. Included by them alone.
#pragma once

#include <algorithm>
#include <memory>

#include "backends/cpu/half.h"
#include "backends/cpu/isa_select.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/winograd_problem.h"
#include "ir/extents.h"
#include "runtime/kernel.h"

namespace traingraph::cpu {

// Of y or dx, and of the gradient of weights.
std::unique_ptr<Kernel> make_winograd_result(const ir::Graph& graph, const ir::Node& node);
std::unique_ptr<Kernel> make_winograd_weights(const ir::Graph& graph, const ir::Node& node);

class WinogradKernel : public Kernel {
 public:
  WinogradKernel(const ir::Graph& graph, const ir::Node& node)
      : loops_(*loops().winograd),
        problem_(winograd_problem_of(graph, node)),
        type_(graph.type(problem_.source).data_type),
        transforms_(loops_.transforms[loop_of(type_)]),
        cut_(winograd_cut_of(problem_)),
        threads_(threads_for(problem_.operations() / kMultiplicationsPerNanosecond)),
        workspace_(graph.values.size() + static_cast<std::size_t>(&node - graph.nodes.data())) {}

 protected:
  static constexpr double kMultiplicationsPerNanosecond = 50;
  // A cache line: operands of the 36 products that lie a power of two apart would share a set.
  static constexpr std::int64_t kGap = 16;
  static constexpr std::int64_t kTilesAtOnce = 32;  // of a step that threads share

  // A tensor from this element on.
  std::byte* elements(Pointers pointers, ir::ValueId id, std::int64_t at) const {
    return pointers[id] + static_cast<std::int64_t>(element_bytes(type_)) * at;
  }
  float* workspace(Pointers pointers) const {
    return reinterpret_cast<float*>(pointers[workspace_]);
  }

  std::int64_t first_of(std::int64_t block) const { return block * cut_.tiles; }
  std::int64_t tiles_of(std::int64_t block) const {
    return std::min(cut_.tiles, problem_.tiles - first_of(block));
  }
  std::int64_t columns_of(std::int64_t slice) const {
    return std::min(cut_.columns, problem_.columns - slice * cut_.columns);
  }
  std::int64_t slices() const { return ir::divide_up(problem_.columns, cut_.columns); }

  // Elements from one w to the next: of the source's transform (channel blocks, tiles, lanes), of
  // that of so many columns, and of weights (channels, columns of a slice in panels).
  std::int64_t source_apart() const { return problem_.channels * cut_.tiles + kGap; }
  std::int64_t result_apart(std::int64_t columns) const { return columns * cut_.tiles + kGap; }
  std::int64_t weights_apart() const { return problem_.channels * cut_.columns + kGap; }
  std::int64_t block_apart() const { return cut_.tiles * loops_.lanes; }

  // body(block of channels, first tile, count) for all of a block of tiles.
  template <class Body>
  void each_piece(std::int64_t channels, std::int64_t tiles, int threads, const Body& body) const {
    const std::int64_t pieces = ir::divide_up(tiles, kTilesAtOnce);
    parallel_for(channels / loops_.lanes * pieces, threads, [&](std::int64_t part) {
      const std::int64_t first = part % pieces * kTilesAtOnce;
      body(part / pieces, first, std::min(kTilesAtOnce, tiles - first));
    });
  }

  void transform_source(Pointers pointers, std::int64_t block, float* to, int threads) const {
    const WinogradImages& images = problem_.source_images;
    each_piece(problem_.channels, tiles_of(block), threads,
               [&](std::int64_t channel, std::int64_t first, std::int64_t count) {
                 transforms_.source(
                     images, elements(pointers, problem_.source, channel * plane(images)),
                     first_of(block) + first, count,
                     to + channel * block_apart() + first * loops_.lanes, source_apart());
               });
  }

  // Elements from one block of channels to the next in an image.
  std::int64_t plane(const WinogradImages& images) const {
    return images.height * images.width * loops_.lanes;
  }

  // body(block of weights, its place in the slice, distance of rows there), for each.
  template <class Body>
  void each_block_of_weights(std::int64_t slice, bool exchanged, int threads,
                             const Body& body) const {
    const std::int64_t lanes = loops_.lanes, wide = loops_.panel_columns;
    const std::int64_t channel_blocks = problem_.channels / lanes;
    const std::int64_t column_blocks = problem_.columns / lanes;
    const std::int64_t columns = columns_of(slice);
    parallel_for(columns / lanes, threads, [&](std::int64_t part) {
      // The last panels may have one vector alone.
      const std::int64_t column = part * lanes, panel = column / wide * wide;
      const bool whole = panel + wide <= columns;
      const std::int64_t row = whole ? wide : lanes;
      std::int64_t place =
          whole ? panel * problem_.channels + column - panel : column * problem_.channels;
      const std::int64_t j = slice * cut_.columns / lanes + part;
      for (std::int64_t i = 0; i < channel_blocks; ++i, place += lanes * row) {
        const std::int64_t block = exchanged ? i * column_blocks + j : j * channel_blocks + i;
        body(block * 9 * lanes * lanes, place, row);
      }
    });
  }

  WinogradProduct product_of(std::int64_t block, std::int64_t slice, const float* source) const {
    return {tiles_of(block), problem_.channels, columns_of(slice), source, block_apart()};
  }

  const WinogradLoops& loops_;
  WinogradProblem problem_;
  DataType type_;  // of all tensors
  const WinogradTransforms& transforms_;
  WinogradCut cut_;
  int threads_;
  SharedTasks shared_;

 private:
  std::size_t workspace_;
};

}  // namespace traingraph::cpu
