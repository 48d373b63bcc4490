#include "backends/cpu/team.h"

#if __has_include(<execinfo.h>)
#include <execinfo.h>
#endif

#include <latch>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <traingraph/errors.h>

namespace traingraph::cpu {
namespace {

#if __has_include(<execinfo.h>)
// The C library loads what unwinds stacks at the first exit of a thread, and ends the process where
// there is no memory for that by then. A backtrace loads it now.
[[maybe_unused]] const int unwinder = [] {
  void* frame[1];
  return backtrace(frame, 1);
}();
#endif

}  // namespace

void expect_team(int threads) {
  thread_local int known = 1;
  if (threads <= known) return;
  std::latch all(1);
  std::vector<std::thread> team;
  team.reserve(static_cast<std::size_t>(threads));
  std::string failure;
  try {
    for (int k = 1; k < threads; ++k) team.emplace_back([&all] { all.wait(); });
  } catch (const std::system_error& error) {
    failure = error.code().message();
  }
  const std::size_t made = team.size();
  all.count_down();
  for (std::thread& one : team) one.join();
  if (!failure.empty()) {
    throw OutOfMemory("[run] expected memory for " + std::to_string(threads) + " threads but got " +
                      std::to_string(made + 1) + ": " + failure);
  }
  known = threads;
}

}  // namespace traingraph::cpu
