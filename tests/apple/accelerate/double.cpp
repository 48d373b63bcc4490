// Counts of calls, rules that end the process, and what a test asks of the double.
#include "double.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
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

bool overlap(const Range& a, const Range& b) {
  const auto* a_first = static_cast<const float*>(a.first);
  const auto* b_first = static_cast<const float*>(b.first);
  const std::less<> before;
  return before(a_first, b_first + b.count) && before(b_first, a_first + a.count);
}

}  // namespace accelerate_double
