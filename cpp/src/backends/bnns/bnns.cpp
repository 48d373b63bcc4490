// The backend and its table: Accelerate's kernels, the CPU backend's, the reference implementation.
#include "backends/bnns/bnns.h"

#include <sys/utsname.h>

#include <algorithm>

#include "backends/cpu/cpu.h"
#include "backends/reference/reference.h"

namespace traingraph::bnns {
namespace {

// Accelerate is a part of the system, so a note of verification holds for one release of it.
std::string system_release() {
  utsname system{};
  uname(&system);
  return std::string(system.sysname) + " " + system.release;
}

class BnnsBackend final : public HostBackend {
 public:
  std::string name() const override { return "bnns"; }
  Support available() const override { return cpu::backend().available(); }
  std::vector<std::string> devices() const override {
    return {cpu::backend().devices().at(0) + ", Accelerate of " + system_release()};
  }

  // A yes to what the reference implementation alone takes says so.
  Support supports(const ir::Graph& graph, const ir::Node& node) const override {
    Support support = HostBackend::supports(graph, node);
    const auto takes = [&](const KernelEntry& entry) {
      return entry.op == node.op && entry.supports(graph, node).yes;
    };
    if (support.yes && std::ranges::none_of(own_entries(), takes)) {
      support.reason = "reference implementation";
    }
    return support;
  }

 protected:
  const std::vector<KernelEntry>& table() const override {
    static const std::vector<KernelEntry> entries = reference::table_behind(own_entries());
    return entries;
  }
};

}  // namespace

const std::vector<KernelEntry>& own_entries() {
  static const std::vector<KernelEntry> entries = [] {
    std::vector<KernelEntry> all;
    for (const auto& own :
         {convolution_entries(), pooling_entries(), matmul_entries(), cpu::own_entries()}) {
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }();
  return entries;
}

const Backend& backend() {
  static const BnnsBackend instance;
  return instance;
}

}  // namespace traingraph::bnns
