#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include <traingraph/interruption.h>

namespace traingraph {

// Calls `try_now` until it says that it is done, with pauses that grow to 20 ms; between two calls
// the wait may be ended. No signal can arrive at the wrong moment, as it can for a call of the
// system that blocks.
void wait_until(const std::function<bool()>& try_now);

// How long a wait lasts before it asks whether to go on.
inline constexpr std::chrono::milliseconds kMoment{50};

// Whether anything can end a wait.
bool waits_may_be_interrupted();

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

// While one lives, what this thread compiles may be interrupted. The thread holds no mutex then:
// who checks may wait for others.
class InterruptibleCompilation {
 public:
  InterruptibleCompilation();
  ~InterruptibleCompilation();
  InterruptibleCompilation(const InterruptibleCompilation&) = delete;
  InterruptibleCompilation& operator=(const InterruptibleCompilation&) = delete;

 private:
  Interruptible* before_;
  Interruptible now_;
};

// Called for each node by what compiles.
void check_compilation();

}  // namespace traingraph
