#pragma once

#include <cstdint>

#include "runtime/memory/host_backend.h"

namespace traingraph::cpu {

// A kernel that moves elements as unsigned integers K<T> of the size of its first result's.
template <template <class> class K>
std::unique_ptr<Kernel> make_by_size(const ir::Graph& graph, const ir::Node& node) {
  switch (element_bytes(graph.type(node.outputs[0]).data_type)) {
    case 1:
      return std::make_unique<K<std::uint8_t>>(graph, node);
    case 2:
      return std::make_unique<K<std::uint16_t>>(graph, node);
    case 4:
      return std::make_unique<K<std::uint32_t>>(graph, node);
    default:
      return std::make_unique<K<std::uint64_t>>(graph, node);
  }
}

inline Support supports_any_type(const ir::Graph&, const ir::Node&) { return {}; }

}  // namespace traingraph::cpu
