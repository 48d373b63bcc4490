#include <traingraph/memory_plan.h>
#include <traingraph/message_text.h>

#include <algorithm>
#include <iomanip>

#include "ir/number_text.h"

namespace traingraph {

std::string MemoryPlan::largest_entries() const {
  constexpr std::size_t kShown = 8;
  std::vector<Entry> sorted = entries;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Entry& a, const Entry& b) { return a.bytes > b.bytes; });
  sorted.resize(std::min(sorted.size(), kShown));
  std::string text = "\nthe largest entries of this graph's memory plan:";
  for (const Entry& entry : sorted) {
    text += "\n  " + std::to_string(entry.bytes) + " bytes, " + entry.kind + ": " +
            shortened(entry.name, kMostShown);
  }
  return text + "\n  " + std::to_string(arena_bytes) + " bytes, arena: what of these is reused";
}

std::string MemoryPlan::to_string() const {
  PlainStream text;
  std::size_t width = 10;
  for (const Entry& entry : entries) {
    width = std::max(width, character_count(shortened(entry.name, kMostShown)));
  }
  auto line = [&](const std::string& name, const std::string& kind, std::size_t bytes) {
    text << std::left << padded(shortened(name, kMostShown), width + 2) << std::setw(12) << kind
         << std::right << std::setw(14) << bytes << "\n";
  };
  for (const Entry& entry : entries) line(entry.name, entry.kind, entry.bytes);
  line("arena", "shared", arena_bytes);
  line("persistent", "sum", persistent_bytes);
  line("staging", "sum", staging_bytes);
  line("exchange", "sum", exchange_bytes);
  line("total", "asked for", total_bytes);
  line("libraries", "held", library_bytes);
  if (context_bytes > 0) line("device's context", "held", context_bytes);
  for (const Entry& entry : recomputed) line(entry.name, entry.kind, entry.bytes);
  return text.str();
}

}  // namespace traingraph
