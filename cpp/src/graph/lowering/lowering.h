// The result of lowering: a graph of layers as ops for one batch size and mode, with its bound
// arrays, parameters and gradients.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/state/graph_state.h"
#include "layers/emitter.h"
#include "passes/passes.h"

namespace traingraph {

// What the integers of a tensor may be: class labels from -1 (ignored), indices from 0, or lengths
// of sequences, which may have to descend; below `count`. 0: anything.
struct IntegerRange {
  std::int64_t lowest = 0;
  std::int64_t count = 0;
  bool are_lengths = false;
  bool descends = false;
  std::string layer = {};  // " at layer 3 'embedding'": the one that asks for it
};

// Indices that are looked at inside the program: computed ones, and arrays in a GPU's memory.
struct IndexCheck {
  std::string name;
  ir::Type type;
  IntegerRange range;
};

struct DeviceSlot;
struct InputData;

// An array the caller brings: which tensor it is, and what its integers may be.
struct BoundSlot {
  std::string name;  // declared name, or the tensor's label
  TensorPtr tensor;
  ir::ValueId value = ir::kNone;
  IntegerRange range = {};
  // Who writes it. Gradients are read by the gradient pass, the rest by the forward pass. What is
  // declared and comes from a linked graph as well is the caller's where a call brings data.
  enum class From { caller, caller_or_link, user_gradient, linked_value, linked_gradient };
  From from = From::caller;
  std::uint64_t linked_graph = 0;  // of a linked gradient: the number of the graph it comes from
  InputData* input = nullptr;      // all that the tensor was given, in the graph's executor
  DeviceSlot* filled = nullptr;    // on the host: where calls with fewer rows are filled up

  bool may_be_given() const {
    return from == From::caller || from == From::caller_or_link || from == From::user_gradient;
  }
  bool may_be_linked() const { return from == From::caller_or_link || from == From::linked_value; }
  bool is_gradient() const { return from == From::user_gradient || from == From::linked_gradient; }
};

struct LoweredGraph {
  Lowering lowering;
  std::vector<BoundSlot> bound;
  std::map<const Tensor*, ir::ValueId> tensors;  // every tensor of the graph
  ir::ValueId result = ir::kNone;                // the loss, else the last layer's first result
  TensorPtr result_tensor;
  // Where gradients start: losses, and sums and other expressions of losses.
  struct End {
    ir::ValueId value;
    bool is_mean;
    TensorPtr tensor;
  };
  std::vector<End> ends;
  // What the last loss compares; null without a loss.
  TensorPtr prediction;
  TensorPtr label;
  // Of updatable parameters and of every other tensor whose gradient is to be read.
  std::map<const Tensor*, ir::ValueId> gradients;
  std::vector<TensorPtr> trained;  // what updates change, in the order of first use
  // By parameter slot: the tensor, and for buffers beside it the name and the parameter's slot.
  struct Slot {
    TensorPtr tensor;
    std::string buffer;
    int follows = ir::kNone;
    // A sum of gradients, which belongs to this graph; moments belong to the tensor.
    bool accumulates = false;
    IntegerRange range = {};
    bool is_of_optimizer() const { return !buffer.empty() && !accumulates; }
  };
  std::vector<Slot> slots;
  std::vector<IndexCheck> index_checks;
  ir::ValueId outside = ir::kNone;  // what they have found (ops/indexing.cpp); kNone: no checks
  std::string meeting;              // where_rows_meet() of a program that takes fewer rows
  bool counts_rows = false;         // whether it computes otherwise for fewer rows
};

// prediction is inference without losses, which needs no labels.
enum class Mode { training, inference, prediction };

// batch 0: the tensors' own. Raises typed errors that name layer and tensor; also where a layer
// allows for the declared batch alone. `fewer`: for calls with up to so many rows; where such a
// program cannot be (LoweredGraph::meeting), the result is the forward part alone.
LoweredGraph lower(const GraphState& state, std::int64_t batch, Mode mode, bool fewer = false);

// Whether a loss among the layers compares with something that nobody declared or computes.
bool lacks_labels(const GraphState& state);

// Axis 0 of the declared inputs and of what linked graphs send; 0 when they have none in common.
// An input of one row beside others of several serves all samples, as a constant's row does.
std::int64_t declared_batch(const GraphState& state);

}  // namespace traingraph
