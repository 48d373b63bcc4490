#include "double.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "filter.h"

namespace accelerate_double {
namespace {

// Calls by name. Names are literals of this library, so their addresses tell most of them apart.
struct Counts {
  static constexpr int kMost = 64;
  const char* names[kMost] = {};
  long calls[kMost] = {};
  std::mutex mutex;

  void note(const char* name) {
    const std::lock_guard lock(mutex);
    for (int i = 0; i < kMost; ++i) {
      if (names[i] == nullptr) names[i] = name;
      if (std::strcmp(names[i], name) != 0) continue;
      ++calls[i];
      return;
    }
  }

  ~Counts() {
    if (std::getenv("TRAINGRAPH_ACCELERATE_COUNTS") == nullptr) return;
    for (int i = 0; i < kMost && names[i] != nullptr; ++i) {
      std::fprintf(stderr, "accelerate: %s %ld\n", names[i], calls[i]);
    }
    std::fprintf(stderr, "accelerate: filters left %zu\n", living_filters());
  }
};

Counts& counts() {
  static Counts instance;
  return instance;
}

}  // namespace

void require(bool kept, const char* call, const char* rule) {
  if (kept) return;
  std::fprintf(stderr, "%s: %s\n", call, rule);
  std::fflush(stderr);
  std::abort();
}

bool refuses(const char* call) {
  counts().note(call);
  const char* refused = std::getenv("TRAINGRAPH_ACCELERATE_REFUSES");
  return refused != nullptr && std::strcmp(refused, call) == 0;
}

bool reads(const char* word) {
  const char* text = std::getenv("TRAINGRAPH_ACCELERATE_READS");
  return text != nullptr && std::strcmp(text, word) == 0;
}

bool adds_gradients() { return std::getenv("TRAINGRAPH_ACCELERATE_ADDS") != nullptr; }

bool overlap(const Range& a, const Range& b) {
  const auto bounds = [](const Range& range, std::uintptr_t& low, std::uintptr_t& high) {
    low = reinterpret_cast<std::uintptr_t>(range.first);
    const auto step = static_cast<std::uintptr_t>(range.stride < 0 ? -range.stride : range.stride);
    const std::uintptr_t span = (range.count - 1) * step * range.bytes;
    if (range.stride < 0) low -= span;
    high = low + span + range.bytes;
  };
  if (a.count == 0 || b.count == 0) return false;
  std::uintptr_t a_low, a_high, b_low, b_high;
  bounds(a, a_low, a_high);
  bounds(b, b_low, b_high);
  return a_low < b_high && b_low < a_high;
}

}  // namespace accelerate_double
