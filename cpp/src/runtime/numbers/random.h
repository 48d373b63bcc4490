#pragma once

#include <cstdint>

namespace traingraph {

// A seed for the next random initialiser: follows from the platform's seed and advances, so that
// two initialisers differ and a program repeats.
std::uint64_t next_random_stream();

// The platform's seed, or the fixed one before a program sets it.
std::uint64_t current_random_seed();

}  // namespace traingraph
