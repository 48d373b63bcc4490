#pragma once

#include <cstdint>

#include "ir/host_device.h"

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011):
// a counter and a key in, four random words out. No state, so the order of use does not matter.
namespace traingraph::philox {

struct Block {
  std::uint32_t word[4];
};

TRAINGRAPH_HOST_DEVICE inline Block block(Block counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter.word[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {{static_cast<std::uint32_t>(b >> 32) ^ counter.word[1] ^ key0,
                static_cast<std::uint32_t>(b),
                static_cast<std::uint32_t>(a >> 32) ^ counter.word[3] ^ key1,
                static_cast<std::uint32_t>(a)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// The four words for elements 4 index … 4 index + 3 of one op at one step. The seed is the key, so
// that two ops differ in all of their words.
TRAINGRAPH_HOST_DEVICE inline Block block_of(std::uint64_t seed, std::uint64_t step,
                                             std::uint64_t index) {
  return block({{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                 static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32)}},
               static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
}

// The word of one element, counted row-major whatever the layout.
TRAINGRAPH_HOST_DEVICE inline std::uint32_t word_of(std::uint64_t seed, std::uint64_t step,
                                                    std::uint64_t element) {
  return block_of(seed, step, element >> 2).word[element & 3];
}

// Dropout keeps the elements whose word is at least this. 0 <= rate < 1.
TRAINGRAPH_HOST_DEVICE inline std::uint32_t keep_threshold(double rate) {
  return static_cast<std::uint32_t>(rate * 4294967296.0);
}

}  // namespace traingraph::philox
