#include "engine/arena.h"

#include <traingraph/errors.h>

namespace traingraph {

void Arena::place(std::size_t bytes) {
  memory_.reset();
  bytes_ = 0;
  if (bytes > 0) memory_ = backend_.allocate(bytes);
  bytes_ = bytes;
}

void Arena::grow(std::size_t bytes) {
  if (!outgrows(bytes)) return;
  const std::size_t before = bytes_;
  try {
    place(bytes);
  } catch (const OutOfMemory&) {
    try {
      place(before);
    } catch (const OutOfMemory&) {
      // The first one says what was asked for, which is an answer.
    }
    throw;
  }
}

}  // namespace traingraph
