#pragma once

#include "backends/bnns/accelerate.h"
#include "backends/bnns/loops.h"

namespace traingraph::bnns {

// How an operand's elements come in the order of the result that it broadcasts to: neighbouring
// axes with one distance are joined, outermost first; distance 0 repeats.
class Operand {
 public:
  Operand(const Shape& operand, const Shape& result);

  // One element per element of the result, in the same order.
  bool dense() const { return axes_.size() == 1 && axes_[0].distance == 1; }
  // One element for all.
  bool number() const { return axes_.size() == 1 && axes_[0].distance == 0; }
  // Writes the elements at the result's positions begin … begin + count - 1.
  void expand(const float* source, std::size_t begin, std::size_t count, float* tile) const;

 private:
  struct Axis {
    std::size_t count, distance;
  };
  std::size_t offset(std::size_t row) const;

  std::vector<Axis> axes_;
};

// A list of scalar functions, tile by tile: each instruction is one call over a tile (loops.h), and
// what lies between two instructions stays in the cache.
class ListLoop {
 public:
  // `inputs` and `outputs` are the list's, in order.
  ListLoop(const ir::Graph& graph, const ir::ScalarList& list, std::vector<ir::ValueId> inputs,
           std::vector<ir::ValueId> outputs);

  std::size_t workspace_bytes() const { return space_ * sizeof(float); }
  // A result may have the bytes of any dense operand.
  void run(Pointers pointers, float* space);

 private:
  void compute(Pointers pointers, float* space, std::size_t begin, std::size_t count);
  // Whether an operand is read where it lies.
  bool in_place(std::size_t operand) const {
    return operands_[operand].dense() && !copied_[operand];
  }
  const float* operand(int number) const {
    return number < 0 ? nullptr : registers_[static_cast<std::size_t>(number)];
  }

  ir::ScalarList list_;
  std::vector<ir::ValueId> inputs_, outputs_;
  std::size_t count_, tile_;  // elements, and how many of them at a time
  std::vector<Operand> operands_;
  std::vector<bool> copied_;  // operands that are results too: read before any result is written
  std::vector<Loop> loops_;
  std::vector<const float*> registers_;  // where each register's tile is now
  bool straight_;                        // the last instruction writes the only result itself
  std::vector<std::size_t> places_;      // of registers that have tiles of their own in the space
  std::size_t space_ = 0;                // numbers in all tiles
};

// What the list of a producer makes of its bare result, in place. `extra` are the node's inputs
// behind the producer's own.
class Epilogue {
 public:
  Epilogue(const ir::Graph& graph, const ir::Node& node, const ir::ScalarList& list,
           std::size_t own_inputs);

  std::size_t workspace_bytes() const { return exists_ ? loop_.workspace_bytes() : 0; }
  void run(Pointers pointers) {
    if (exists_) loop_.run(pointers, reinterpret_cast<float*>(pointers[workspace_]));
  }

 private:
  bool exists_;
  ListLoop loop_;
  std::size_t workspace_;
};

// Whether the list adds an operand, applies relu, or both, over plain float32 operands. Functions
// that make a number of infinity stay ops of their own, so that checked runs see what they read.
bool takes_epilogue(const ir::Graph& graph, const ir::Node& producer, const ir::ScalarList& list,
                    const std::vector<ir::ValueId>& extra);

}  // namespace traingraph::bnns
