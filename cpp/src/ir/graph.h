// The graph IR: values and op applications in topological order. Knows no device.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/attributes.h"
#include "ir/type.h"

namespace traingraph::ir {

enum class Op : std::uint8_t {
#define TRAINGRAPH_OP(name, attributes, cpu) name,
#include "ops.def"
#undef TRAINGRAPH_OP
};
inline constexpr int kOpCount = 0
#define TRAINGRAPH_OP(name, attributes, cpu) +1
#include "ops.def"
#undef TRAINGRAPH_OP
    ;
const char* name(Op op);

using ValueId = int;
using NodeId = int;
inline constexpr int kNone = -1;

enum class Phase : std::uint8_t { forward, gradient, update };
const char* name(Phase phase);

// Where a value's bytes come from.
enum class Source : std::uint8_t {
  node,       // an op's result
  bound,      // the caller's array of this call: inputs, labels, user gradients
  parameter,  // the parameter store: weights, moments, running statistics, constants
  step,       // the block of per-step numbers
  constant,   // written when the program is made
};

// The numbers that change between two steps without compiling again: float scalars of the
// program's type, except those that count, which are int64.
enum class StepInput : std::uint8_t {
  learning_rate,
  corrected_learning_rate,  // with the optimizer's bias correction
  counter,                  // of forward passes; one for all micro-batches of a group
  own_counter,              // the same, but another number for each of them
  accumulates,              // 1: this micro-batch adds to the sum of gradients; 0: it starts one
  first_row,                // of this micro-batch, or rank, in the batch of all of them
  rows,                     // that the call has brought, of those that the program has
  row_share,                // 1 / rows
  rank_rows,                // of this rank in the global batch; 0: its rows do not count
  all_rows,                 // of all ranks
  mean_share,               // rank_rows / all_rows
  sum_share,                // 1; 0: its rows do not count
  rank,                     // this one's number
};
inline constexpr int kStepInputCount = 13;
const char* name(StepInput input);
// Whether it is an int64 number.
constexpr bool counts(StepInput input) {
  return input == StepInput::counter || input == StepInput::own_counter ||
         input == StepInput::first_row || input == StepInput::rows ||
         input == StepInput::rank_rows || input == StepInput::all_rows || input == StepInput::rank;
}

struct Value {
  Type type;
  Layout layout;
  Source source = Source::node;
  NodeId producer = kNone;  // for Source::node
  int slot = kNone;         // index among bound values, parameters or step inputs
  ValueId writes = kNone;   // the parameter value whose bytes this result replaces
  bool keep = false;        // readable after its phase
  std::string name;
};

struct Node {
  Op op = Op::elementwise;
  Attributes attributes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Phase phase = Phase::forward;
  int pair = kNone;   // common to a forward op and its gradient ops
  int layer = kNone;  // index into Graph::layers, for messages and profiles
};

class Graph {
 public:
  std::vector<Value> values;
  std::vector<Node> nodes;          // topological order
  std::vector<std::string> layers;  // "layer 7 'ln1'"

  Value& value(ValueId id) { return values[static_cast<std::size_t>(id)]; }
  const Value& value(ValueId id) const { return values[static_cast<std::size_t>(id)]; }
  const Type& type(ValueId id) const { return value(id).type; }
  Node& node(NodeId id) { return nodes[static_cast<std::size_t>(id)]; }
  const Node& node(NodeId id) const { return nodes[static_cast<std::size_t>(id)]; }

  ValueId add_source(Source source, int slot, Type type, std::string name);
  // Appends an op with results of the given types; the current phase and layer go with it.
  NodeId add_node(Op op, Attributes attributes, std::vector<ValueId> inputs,
                  const std::vector<Type>& results);
  // One more result of an op.
  ValueId add_result(NodeId node, Type type);
  // A node whose results exist: it becomes what produces them.
  NodeId append(Node node);

  // Why this graph runs with one batch size only, naming the layer; empty when it does not.
  std::string fixed_batch;

  // Where new nodes belong.
  Phase phase = Phase::forward;
  int layer = kNone;
};

// What an elementwise op over these gives unless it says otherwise: their one type, float64 where
// one of them is, else float32.
DataType joint_type(const Graph& graph, const std::vector<ValueId>& inputs);

// Node indices that read each value.
std::vector<std::vector<NodeId>> consumers(const Graph& graph);

// The graph without these nodes, the others in an order that respects phases and data, as close to
// the old one as possible.
Graph without_nodes(const Graph& graph, const std::vector<bool>& gone);

// " at layer 7 'ln1'" or "".
std::string where(const Graph& graph, const Node& node);
std::string where(const Graph& graph, int layer);

// Raises InternalError at the first broken invariant: order, types, pairs, writes.
void verify(const Graph& graph);

// One line per op: results, types, layouts, attributes, layer.
std::string to_string(const Graph& graph);

}  // namespace traingraph::ir
