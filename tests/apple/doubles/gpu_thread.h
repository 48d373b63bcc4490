// Where the work of committed command buffers runs: on the committing thread, or on one of its own
// as on a GPU, where a test has asked for that (runtime.h).
#pragma once
#include <functional>

namespace apple {

// Runs it at once, or leaves it to the thread, which keeps the order.
void run_on_gpu(std::function<void()> work);
// Returns when this is so; asked again whenever something has run.
void wait_for_gpu(const std::function<bool()>& is_so);
// Whether the command buffer that begins now is to fail.
bool fails_now();

}  // namespace apple
