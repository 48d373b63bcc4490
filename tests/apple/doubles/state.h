// What a state holds beside its properties.
#pragma once
#include <vector>

#include "doubles.h"

namespace apple {
struct Extent {
  NSUInteger width = 0, height = 0, channels = 0;
  bool operator==(const Extent&) const = default;
};
}  // namespace apple

struct MPSStateInside {
  std::vector<apple::Kept<id<MTLBuffer>>> buffers;
  // The number of the only command buffer that may use it; 0 before the first use of one that is
  // not temporary. A state of one batch is no state of the next one.
  std::uint64_t commands = 0;
  // For states of one batch only.
  bool of_one_batch = false;
  // What the forward kernel that made it works on: its class, source and result.
  Class maker = Nil;
  apple::Extent source, result;
  // Numbers of that kernel which its gradient kernel must have too; empty where there are none.
  std::vector<double> numbers;
};

namespace apple {
// A state of this class over these buffers, autoreleased; temporary where there is a command
// buffer.
MPSState* make_state(Class state_class, id<MTLCommandBuffer> commands,
                     const std::vector<id<MTLBuffer>>& buffers);
}  // namespace apple
