#pragma once

#include <vector>

#include "layers/sequences.h"

// Of what an LSTM layer is made: one layer and direction.
namespace traingraph {

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
LSTMResults lstm_direction(Emitter& e, const Sequences& sequences, ir::ValueId x,
                           const LSTMWeights& weights, const std::vector<ir::ValueId>& states,
                           const std::vector<ir::ScalarList>& activations, bool reverse);

}  // namespace traingraph
