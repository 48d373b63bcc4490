#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "runtime/backend.h"

namespace traingraph::testing {

// Runs a graph node by node in plain layouts: every value has bytes of its own, between guards that
// are checked after each node. Results hold NaN (all bits set) until their node wrote them. On a
// device with memory of its own each buffer has a mirror there, and is read back after each node.
class Interpreter {
 public:
  Interpreter(const ir::Graph& graph, const Backend& backend);

  void set(ir::ValueId value, const void* bytes);
  void run();
  const std::byte* get(ir::ValueId value) const { return buffers_[index(value)].begin; }

 private:
  static std::size_t index(ir::ValueId value) { return static_cast<std::size_t>(value); }
  std::byte* allocate(std::size_t bytes);
  void check_guards(const ir::Node& node) const;

  struct Guarded {
    std::vector<std::byte> storage;
    std::byte* begin;
    std::size_t bytes;
    std::shared_ptr<std::byte> mirror;  // of storage; null on the host
    std::byte* address;                 // where kernels find `begin`
  };

  // Between host and device; nothing to do on the host.
  void send(const Guarded& buffer) const;
  void fetch(Guarded& buffer) const;

  const ir::Graph& graph_;
  const Backend& backend_;
  std::unique_ptr<Executable> executable_;
  std::vector<Guarded> buffers_;
  std::vector<std::byte*> pointers_;  // values, then one workspace per node
};

}  // namespace traingraph::testing
