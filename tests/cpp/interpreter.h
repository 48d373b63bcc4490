#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "runtime/backend.h"

namespace traingraph::testing {

// Runs a graph node by node in plain layouts: every value has bytes of its own, between guards that
// are checked after each node. Results hold NaN (all bits set) until their node wrote them.
class Interpreter {
 public:
  Interpreter(const ir::Graph& graph, const Backend& backend);

  void set(ir::ValueId value, const void* bytes);
  void run();
  const std::byte* get(ir::ValueId value) const { return pointers_[index(value)]; }

 private:
  static std::size_t index(ir::ValueId value) { return static_cast<std::size_t>(value); }
  std::byte* allocate(std::size_t bytes);
  void check_guards(const ir::Node& node) const;

  struct Guarded {
    std::vector<std::byte> storage;
    std::byte* begin;
    std::size_t bytes;
  };

  const ir::Graph& graph_;
  std::unique_ptr<Executable> executable_;
  std::vector<Guarded> buffers_;
  std::vector<std::byte*> pointers_;  // values, then one workspace per node
};

}  // namespace traingraph::testing
