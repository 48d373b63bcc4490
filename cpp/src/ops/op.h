// The definition of an op: a shape rule and, where it has one, a gradient rule that emits ops.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ir/graph.h"

namespace traingraph::ops {

// A shape rule's view of the application under construction.
struct Inference {
  ir::Graph& graph;
  ir::Op op;
  const ir::Attributes& attributes;
  const std::vector<ir::ValueId>& inputs;

  const ir::Type& type(std::size_t i) const { return graph.type(inputs[i]); }
  template <class A>
  const A& get() const {
    return std::get<A>(attributes);
  }
  // Raises ShapeError "[op] text at layer …".
  [[noreturn]] void fail(const std::string& text) const;
  // Raises unless the count of inputs lies in [least, most].
  void expect_inputs(std::size_t least, std::size_t most) const;
  // Raises unless input i has this rank.
  void expect_rank(std::size_t i, int rank, const char* what) const;
  // What all inputs and a shape are broadcast to, of this type; its axis 0 stays the batch where
  // one of them brings it there. Raises unless they can be.
  ir::Type broadcast(DataType type, const Shape& shape = {}, bool batched = false) const;
  // The batch axis is merged, moved or mixed with a fixed extent: one batch size only.
  void fix_batch() const;
};

// A gradient rule's view: reads the forward application, sets one gradient per wanted input.
class Gradient {
 public:
  Gradient(ir::Graph& graph, ir::NodeId node, std::vector<ir::ValueId> result_gradients,
           std::vector<bool> wanted);

  ir::Graph& graph;
  const ir::Node node;  // a copy: emitting ops moves the graph's own

  ir::ValueId input(std::size_t i) const { return node.inputs[i]; }
  ir::ValueId result(std::size_t i) const { return node.outputs[i]; }
  // kNone when nothing flows back into this result.
  ir::ValueId result_gradient(std::size_t i = 0) const { return result_gradients_[i]; }
  bool wants(std::size_t i) const { return wanted_[i]; }
  void set(std::size_t i, ir::ValueId gradient) { gradients[i] = gradient; }
  template <class A>
  const A& get() const {
    return std::get<A>(node.attributes);
  }

  std::vector<ir::ValueId> gradients;  // per input; kNone: no gradient

 private:
  std::vector<ir::ValueId> result_gradients_;
  std::vector<bool> wanted_;
};

// What an op computes in where 16 and 32 bits are mixed.
enum class Mixed : std::uint8_t {
  full,     // float32
  product,  // 16 bits
  follows,  // what one of its inputs is in
};
inline constexpr int kAnyInput = -1;

// Integers that an op reads, and what they may be: from `lowest` to below `end`.
struct IntegerUse {
  ir::ValueId integers = ir::kNone;  // kNone: it reads none that are limited
  std::int64_t lowest = 0;
  std::int64_t end = 0;
  bool are_lengths = false;  // of sequences
  bool descend = false;
};

// What passes and checks ask of an op.
struct Properties {
  Mixed mixed = Mixed::full;
  int follows_input = 0;         // or kAnyInput
  bool follows_readers = false;  // or what reads it
  int half_inputs = -1;  // those behind so many stay float32, as what is per channel; -1: none
  int half_outputs = 1;  // those behind so many stay float32
  // Whether finite operands give finite results: it moves, chooses or bounds them. Null: never.
  bool (*stays_finite)(const ir::Node&) = nullptr;
  // Null: it takes none.
  ir::ScalarList* (*epilogue)(ir::Attributes&) = nullptr;
  IntegerUse (*integers)(const ir::Graph&, const ir::Node&) = nullptr;
};

struct Definition {
  std::vector<ir::Type> (*infer)(const Inference&);
  // null: nothing flows through this op
  void (*gradient)(Gradient&);
  Properties properties = {};
};

// For Properties.
inline bool always(const ir::Node&) { return true; }
template <class A>
ir::ScalarList* epilogue_of(ir::Attributes& attributes) {
  return &std::get<A>(attributes).epilogue;
}

const Definition& definition(ir::Op op);

// Applies an op: runs its shape rule, appends it, returns the node.
ir::NodeId apply(ir::Graph& graph, ir::Op op, ir::Attributes attributes,
                 std::vector<ir::ValueId> inputs);
// The same, returning the first result.
ir::ValueId apply1(ir::Graph& graph, ir::Op op, ir::Attributes attributes,
                   std::vector<ir::ValueId> inputs);

#define TRAINGRAPH_OP(name, attributes, cpu) extern const Definition name##_definition;
#include "ops.def"
#undef TRAINGRAPH_OP

}  // namespace traingraph::ops
