#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <traingraph/export.h>

namespace traingraph {

struct ClassDescription;

// What one compiled graph keeps in device memory.
struct TRAINGRAPH_API MemoryPlan {
  struct TRAINGRAPH_API Entry {
    std::string name;  // tensor or op, with its layer
    std::string kind;  // bound, persistent, saved, gradient, exchange, transient, workspace
    std::size_t bytes = 0;
    bool operator==(const Entry&) const = default;
    static const ClassDescription& class_description();
  };
  std::vector<Entry> entries;
  // What the gradient pass computes again for a memory limit, with the bytes that are free between
  // its last reader in the forward pass and its first one in the gradient pass.
  std::vector<Entry> recomputed;
  std::size_t arena_bytes = 0;       // saved, gradient, transient, workspace: shared by reuse
  std::size_t persistent_bytes = 0;  // parameters, moments, running statistics, constants
  std::size_t staging_bytes = 0;     // copies of inputs that could not be used in place
  std::size_t exchange_bytes = 0;    // what this graph hands to linked graphs
  // What the core asks its allocators for: arena + persistent + staging + exchange.
  std::size_t total_bytes = 0;
  // What libraries hold on their own (code, descriptors), measured: the growth of the process's
  // private memory while kernels were made, in whole pages.
  std::size_t library_bytes = 0;
  // What the context and the libraries of a device with memory of its own hold there, for all
  // graphs together, measured when they were made.
  std::size_t context_bytes = 0;

  // The largest entries, for messages.
  std::string largest_entries() const;
  // A table.
  std::string to_string() const;
  bool operator==(const MemoryPlan&) const = default;
  static const ClassDescription& class_description();
};

}  // namespace traingraph
