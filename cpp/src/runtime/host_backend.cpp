#include "runtime/host_backend.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>

#include <traingraph/errors.h>

#include "runtime/allocator.h"
#include "runtime/verbose.h"

namespace traingraph {
namespace {

// NaN and infinity are what has every bit of the exponent set.
template <class Bits>
bool all_finite_bits(const std::byte* bytes, std::size_t length, Bits exponent) {
  const Bits one = exponent & (~exponent + 1);
  const Bits carry = exponent + one;  // the sign bit: nothing else can reach it
  constexpr std::size_t kPart = 4096;
  const std::size_t count = length / sizeof(Bits);
  const Bits* values = reinterpret_cast<const Bits*>(bytes);
  for (std::size_t first = 0; first < count; first += kPart) {
    const std::size_t last = std::min(count, first + kPart);
    Bits carried = 0;
    for (std::size_t i = first; i < last; ++i) carried |= (values[i] & exponent) + one;
    if ((carried & carry) != 0) return false;
  }
  return true;
}

class KernelList final : public Executable {
 public:
  explicit KernelList(std::vector<std::unique_ptr<Kernel>> kernels)
      : kernels_(std::move(kernels)) {}

  std::size_t workspace_bytes(ir::NodeId node) const override {
    const auto& kernel = kernels_[static_cast<std::size_t>(node)];
    return kernel ? kernel->workspace_bytes() : 0;
  }

  void run(const ir::NodeId* order, std::size_t count, Pointers pointers,
           double* seconds) override {
    if (seconds == nullptr) {
      for (std::size_t k = 0; k < count; ++k) {
        kernels_[static_cast<std::size_t>(order[k])]->run(pointers);
      }
      return;
    }
    using Clock = std::chrono::steady_clock;
    for (std::size_t k = 0; k < count; ++k) {
      const Clock::time_point start = Clock::now();
      kernels_[static_cast<std::size_t>(order[k])]->run(pointers);
      seconds[order[k]] = std::chrono::duration<double>(Clock::now() - start).count();
    }
  }

  bool all_finite(DataType type, const std::byte* bytes, std::size_t length) const override {
    if (type == DataType::kFloat32) {
      return all_finite_bits<std::uint32_t>(bytes, length, 0x7f800000u);
    }
    return all_finite_bits<std::uint64_t>(bytes, length, 0x7ff0000000000000ull);
  }

 private:
  std::vector<std::unique_ptr<Kernel>> kernels_;  // by node number; null for views
};

}  // namespace

LayoutChoice plain_layouts(const ir::Node& node) {
  return {std::vector<ir::Layout>(node.inputs.size()),
          std::vector<ir::Layout>(node.outputs.size())};
}

const KernelEntry* HostBackend::find(const ir::Graph& graph, const ir::Node& node,
                                     std::string* reasons) const {
  for (const KernelEntry& entry : table()) {
    if (entry.op != node.op) continue;
    const Support support = entry.supports(graph, node);
    if (support.yes) return &entry;
    if (verbose_dispatch()) {
      std::fprintf(stderr, "traingraph: dispatch: %s refuses %s%s: %s\n", name().c_str(),
                   ir::name(node.op), ir::where(graph, node).c_str(), support.reason.c_str());
    }
    if (reasons != nullptr) *reasons += (reasons->empty() ? "" : "; ") + support.reason;
  }
  return nullptr;
}

Support HostBackend::supports(const ir::Graph& graph, const ir::Node& node) const {
  std::string reasons;
  if (find(graph, node, &reasons) != nullptr) return {};
  return Support::no(reasons.empty() ? "no kernel for " + std::string(ir::name(node.op)) : reasons);
}

bool HostBackend::fuses(const ir::Graph& graph, const ir::Node& producer,
                        const ir::ScalarList& list, const std::vector<ir::ValueId>& extra) const {
  const KernelEntry* entry = find(graph, producer, nullptr);
  return entry != nullptr && entry->fuses != nullptr && entry->fuses(graph, producer, list, extra);
}

LayoutChoice HostBackend::layouts(const ir::Graph& graph, const ir::Node& node) const {
  const KernelEntry* entry = find(graph, node, nullptr);
  if (entry == nullptr || entry->layouts == nullptr) return plain_layouts(node);
  return entry->layouts(graph, node);
}

std::unique_ptr<Executable> HostBackend::compile(const ir::Graph& graph,
                                                 const std::vector<ir::NodeId>& nodes) const {
  std::vector<std::unique_ptr<Kernel>> kernels(graph.nodes.size());
  std::string refused;
  for (ir::NodeId id : nodes) {
    const ir::Node& node = graph.node(id);
    std::string reasons;
    const KernelEntry* entry = find(graph, node, &reasons);
    if (entry == nullptr) {
      refused += "\n  " + std::string(ir::name(node.op)) + ir::where(graph, node) + ": " +
                 (reasons.empty() ? "no kernel" : reasons);
      continue;
    }
    kernels[static_cast<std::size_t>(id)] = entry->make(graph, node);
  }
  if (!refused.empty()) {
    throw Unsupported("[compile] backend '" + name() + "' cannot run" + refused);
  }
  return std::make_unique<KernelList>(std::move(kernels));
}

std::shared_ptr<std::byte> HostBackend::allocate(std::size_t bytes) const {
  return allocate_host(bytes);
}

}  // namespace traingraph
