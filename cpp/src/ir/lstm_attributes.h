// Attributes and operand positions of the ops lstm and lstm_gradient.
#pragma once

#include <vector>

#include "ir/scalar.h"

namespace traingraph::ir {

// One layer and direction of an LSTM over N sequences of T steps. Gates stand in the order input,
// forget, candidate, output, each H wide; what is written (N, T, …) is (T, N, …) with `time_first`.
//
// lstm: what the gates add to U h (N, T, 4H), U (4H, H) [, initial h and c (N, H)] [, peepholes
// (3, H) of the input, forget and output gate] [, lengths (N) of int32] → h (N, T, H), the last h
// and c (N, H). With `keeps` also what its gradient reads: the gates (N, T, 4H), and h and c as
// each step found them (N, T, H); with peepholes c as each step left it, too. lstm_gradient: [dh]
// [, d last h] [, d last c], U, the gates, c as each step found it [, peepholes]
// [, lengths] → the gradients of what the gates add to U h, and of the initial h and c.
//
// Behind its end a sequence gives zeros and keeps its state; with `reverse` it begins there.
// Lengths descend from at most T to at least 0: with others, which nobody has looked at, all h and
// c and all gradients are NaN.
struct LstmAttributes {
  bool time_first = false;
  bool reverse = false;
  bool has_states = false;
  bool has_peepholes = false;
  bool has_lengths = false;
  bool keeps = false;
  // Of the gates and of c, lists of one input and one result. None: sigmoid, sigmoid, tanh,
  // sigmoid, tanh, of which the gates are kept as they are; else what they are functions of is.
  std::vector<ScalarList> activations;
  // Of the gradient op, to each of these: what it is a function of, its value and the gradient of
  // that → the gradient of what it is a function of.
  std::vector<ScalarList> derivatives;
  // Which results of the forward op the gradient op has gradients of.
  bool flows_all = false, flows_hidden = false, flows_cell = false;
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("time_first", a.time_first);
    f("reverse", a.reverse);
    f("has_states", a.has_states);
    f("has_peepholes", a.has_peepholes);
    f("has_lengths", a.has_lengths);
    f("keeps", a.keeps);
    f.unless_empty("activations", a.activations);
    f.unless_empty("derivatives", a.derivatives);
    f("flows_all", a.flows_all);
    f("flows_hidden", a.flows_hidden);
    f("flows_cell", a.flows_cell);
  }
  bool operator==(const LstmAttributes&) const = default;

  static constexpr int kMostRegisters = 64;  // of a list
};

// Where the operands of both ops are; kNone (-1) for those that are not there.
struct LstmOperands {
  // of the forward op
  int hidden = -1, cell = -1;
  // of the gradient op
  int all_gradient = -1, hidden_gradient = -1, cell_gradient = -1, gates = -1, found_cells = -1;
  // of both
  int weights = -1, peepholes = -1, lengths = -1;
  int count = 0;

  static LstmOperands of_forward(const LstmAttributes& a) {
    LstmOperands o;
    o.count = 1;
    o.weights = o.count++;
    if (a.has_states) {
      o.hidden = o.count++;
      o.cell = o.count++;
    }
    o.add_common(a);
    return o;
  }
  static LstmOperands of_gradient(const LstmAttributes& a) {
    LstmOperands o;
    if (a.flows_all) o.all_gradient = o.count++;
    if (a.flows_hidden) o.hidden_gradient = o.count++;
    if (a.flows_cell) o.cell_gradient = o.count++;
    o.weights = o.count++;
    o.gates = o.count++;
    o.found_cells = o.count++;
    o.add_common(a);
    return o;
  }

 private:
  void add_common(const LstmAttributes& a) {
    if (a.has_peepholes) peepholes = count++;
    if (a.has_lengths) lengths = count++;
  }
};

}  // namespace traingraph::ir
