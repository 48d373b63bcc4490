#pragma once

#include <functional>

namespace traingraph {

// Calls `try_now` until it says that it is done, with pauses that grow to 20 ms. Between two calls
// the thread asks what Platform::set_interruption_check was given, which may raise: no signal can
// arrive at the wrong moment, as it can for a call of the system that blocks.
void wait_until(const std::function<bool()>& try_now);

// Asks once.
void check_interruption();

}  // namespace traingraph
