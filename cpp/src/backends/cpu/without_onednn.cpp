// For builds without oneDNN: what it would compute runs by the reference implementation.
#include "backends/cpu/onednn.h"

namespace traingraph::cpu {

const std::vector<KernelEntry>& onednn_entries() {
  static const std::vector<KernelEntry> none;
  return none;
}

std::string onednn_version() { return "none"; }

}  // namespace traingraph::cpu
