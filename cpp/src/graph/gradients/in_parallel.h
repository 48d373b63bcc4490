#pragma once

#include <cstddef>
#include <functional>

namespace traingraph {

// Calls work(worker, k) for each k below `count` on so many threads; the calling one is worker 0. A
// call that raises, or an interruption, ends the rest, and is raised here.
void in_parallel(std::size_t count, std::size_t workers,
                 const std::function<void(std::size_t worker, std::size_t k)>& work);

// Called by long work between its parts, within such a call or on a thread that makes none: raises
// what ends it.
void check_part();

}  // namespace traingraph
