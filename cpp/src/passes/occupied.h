// Which bytes of the arena are taken when: a tree over the positions of the schedule. A node holds
// what is taken at all of its positions, and what is taken at any of them, as sorted ranges without
// gaps between neighbours. So a question costs about the logarithm of the positions, however many
// buffers are live.
#pragma once

#include <cstddef>
#include <vector>

namespace traingraph::passes {

class Occupied {
 public:
  explicit Occupied(std::size_t positions);

  // Positions are inclusive, bytes are [begin, end).
  void take(std::size_t first, std::size_t last, std::size_t begin, std::size_t end);
  bool is_free(std::size_t first, std::size_t last, std::size_t begin, std::size_t end) const;
  // The lowest offset at which so many bytes are free at all of the positions.
  std::size_t lowest(std::size_t first, std::size_t last, std::size_t bytes) const;

 private:
  struct Range {
    std::size_t begin;
    std::size_t end;
  };
  using Ranges = std::vector<Range>;
  struct Node {
    Ranges always;     // of what was taken at all of the node's positions in one piece
    Ranges sometimes;  // those, and what was taken at some of them
  };
  static void add(Ranges& ranges, Range added);
  // The first that ends behind an offset, or none.
  static const Range* behind(const Ranges& ranges, std::size_t offset);
  void take(std::size_t node, std::size_t low, std::size_t high, std::size_t first,
            std::size_t last, Range range);
  // Calls with ranges that together are what is taken at any of the positions, until it says no.
  template <typename Visit>
  bool visit(std::size_t node, std::size_t low, std::size_t high, std::size_t first,
             std::size_t last, Visit&& to) const;

  std::size_t size_ = 1;     // leaves: a power of two
  std::vector<Node> nodes_;  // node k has the children 2k and 2k + 1; the root is 1
};

}  // namespace traingraph::passes
