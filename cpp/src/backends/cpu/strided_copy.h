// Copies elements of any type between places with different strides: whole runs, or transposed
// planes. It is planned once and cut by shape into parts, which threads share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace traingraph::cpu {

class StridedCopy {
 public:
  // One axis: how many steps, and their length in the source and in the target.
  struct Axis {
    std::int64_t extent, from, to;
  };

  // Strides in elements.
  StridedCopy(std::vector<Axis> axes, std::size_t element_bytes);

  // A null source is zeros; its strides have to be the target's.
  void run(const std::byte* source, std::byte* target) const;

 private:
  // A plane of `rows` (i) and `columns` (j): y[i to_i + j to_j] = x[i from_i + j from_j], in bytes.
  // Either both strides along j are the element (a run), or from_j and to_i are (a transposition).
  void move(const std::byte* source, std::byte* target, std::int64_t rows,
            std::int64_t columns) const;
  void plan_blocks(Axis i, Axis j);

  bool transposes_ = false;
  std::int64_t bytes_;            // of an element
  Axis i_{1, 0, 0}, j_{1, 0, 0};  // strides in bytes
  std::int64_t block_i_ = 1, block_j_ = 1;
  // Axes around the planes, then blocks along i and along j. Strides in bytes.
  std::vector<Axis> grid_;
  std::int64_t blocks_ = 1, blocks_per_part_ = 1;
  int threads_ = 1;
};

}  // namespace traingraph::cpu
