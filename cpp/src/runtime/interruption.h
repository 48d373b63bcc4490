#pragma once

#include <chrono>

#include <traingraph/interruption.h>

namespace traingraph {

// How long a wait lasts before it asks whether to go on.
inline constexpr std::chrono::milliseconds kMoment{50};

// Raises what ends a wait, if anything does.
void check_interruption();

// The same, once in a moment: for loops.
class Interruptible {
 public:
  void check();

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace traingraph
