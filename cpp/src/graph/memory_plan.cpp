#include <traingraph/memory_plan.h>

#include <algorithm>
#include <iomanip>
#include <sstream>

namespace traingraph {

std::string MemoryPlan::to_string() const {
  std::ostringstream text;
  std::size_t width = 10;
  for (const Entry& entry : entries) width = std::max(width, entry.name.size());
  auto line = [&](const std::string& name, const std::string& kind, std::size_t bytes) {
    text << std::left << std::setw(static_cast<int>(width) + 2) << name << std::setw(12) << kind
         << std::right << std::setw(14) << bytes << "\n";
  };
  for (const Entry& entry : entries) line(entry.name, entry.kind, entry.bytes);
  line("arena", "shared", arena_bytes);
  line("persistent", "sum", persistent_bytes);
  line("staging", "sum", staging_bytes);
  line("exchange", "sum", exchange_bytes);
  line("total", "asked for", total_bytes);
  line("libraries", "held", library_bytes);
  return text.str();
}

}  // namespace traingraph
