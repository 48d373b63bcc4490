#pragma once

#include <vector>

#include "layers/emitter.h"

// Of what an LSTM layer is made: sequences of one layer and direction, and what lengths say.
namespace traingraph {

// How many steps each of N sequences has.
struct LSTMSequences {
  bool time_first;
  std::int64_t sequences, steps;
  ir::ValueId lengths = ir::kNone;  // (N) of int32; none: all of them

  int time_axis() const { return time_first ? 0 : 1; }
};

struct LSTMWeights {
  ir::ValueId input;                  // W (4H, I)
  ir::ValueId hidden;                 // U (4H, H)
  ir::ValueId biases = ir::kNone;     // (4H)
  ir::ValueId peepholes = ir::kNone;  // (3, H)
};

struct LSTMResults {
  ir::ValueId all, hidden, cell;  // (N, T, H), (N, H), (N, H)
};

// One layer in one direction over x (N, T, I); `states` are h and c (N, H), or none.
// `activations` as in ir::LstmAttributes.
LSTMResults lstm_direction(Emitter& e, const LSTMSequences& sequences, ir::ValueId x,
                           const LSTMWeights& weights, const std::vector<ir::ValueId>& states,
                           const std::vector<ir::ScalarList>& activations, bool reverse);

// x (N, T, F) with zeros behind the ends, be there what will.
ir::ValueId without_padding(Emitter& e, const LSTMSequences& sequences, ir::ValueId x);
// Of x (N, T, F) each sequence's own last step: (N, 1, F), zeros for a length of 0.
ir::ValueId last_steps(Emitter& e, const LSTMSequences& sequences, ir::ValueId x);

}  // namespace traingraph
