#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "ir/graph.h"

namespace traingraph {

// Addresses by value number; behind the values come the workspaces, one per node.
using Pointers = std::byte* const*;

// One op on one backend, prepared for fixed shapes and layouts. Running allocates nothing and looks
// nothing up.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Scratch that must be there while it runs; known before.
  virtual std::size_t workspace_bytes() const { return 0; }
  virtual void run(Pointers pointers) = 0;
};

// One that may go on while others run: between the two calls nobody touches what it reads and
// writes, its workspace included.
class ConcurrentKernel : public Kernel {
 public:
  virtual void begin(Pointers pointers) = 0;
  // Returns when it is done, at once where it was not begun. Raises what it has raised.
  virtual void finish() = 0;
  // Ends what was begun, for a run that has failed.
  virtual void abandon() noexcept = 0;
};

// Yes, or the reason why not.
struct Support {
  bool yes = true;
  std::string reason;

  static Support no(std::string why) { return {false, std::move(why)}; }
};

// What a kernel wants its operands to look like. Empty vectors: plain everywhere.
struct LayoutChoice {
  std::vector<ir::Layout> inputs;
  std::vector<ir::Layout> outputs;
};

}  // namespace traingraph
