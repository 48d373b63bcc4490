#pragma once

#include <chrono>
#include <optional>

#include <traingraph/interruption.h>

namespace traingraph {

// How long a wait lasts before it asks whether to go on.
inline constexpr std::chrono::milliseconds kMoment{50};

// Raises what ends a wait, if anything does.
void check_interruption();

// The same, once in a moment: for loops, of which many go round once.
class Interruptible {
 public:
  void check();

 private:
  bool again_ = false;
  std::optional<std::chrono::steady_clock::time_point> last_;
};

}  // namespace traingraph
