#include "backends/metal/mps_entries.h"

namespace traingraph::metal {

std::vector<KernelEntry> mps_entries() { return {}; }

}  // namespace traingraph::metal
