// Sequences of different lengths in one tensor: what layers over them make of lengths.
#pragma once

#include "layers/emitter.h"

namespace traingraph {

// How many steps each of N sequences has.
struct Sequences {
  bool time_first;
  std::int64_t sequences, steps;
  ir::ValueId lengths = ir::kNone;  // (N) of int32; none: all of them

  int time_axis() const { return time_first ? 0 : 1; }
};

// Source `i`, one int32 per sequence in any shape, as (N). Raises DataTypeError and ShapeError.
ir::ValueId given_lengths(Emitter& e, std::size_t i, std::int64_t sequences);

// x (N, T, F) with zeros behind the ends, be there what will.
ir::ValueId without_padding(Emitter& e, const Sequences& s, ir::ValueId x);
// Of x (N, T, F) each sequence's own last step: (N, 1, F), zeros for a length of 0.
ir::ValueId last_steps(Emitter& e, const Sequences& s, ir::ValueId x);
// (N, T, 1) of bool: whether a step is behind its sequence's end. `type` is that of numbers which
// may be compared.
ir::ValueId padding(Emitter& e, const Sequences& s, DataType type);

}  // namespace traingraph
