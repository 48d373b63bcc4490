// Lists of scalar functions, tile by tile: each instruction is one call over a tile (loops.h), and
// what lies between two instructions stays in the cache.
#include <algorithm>
#include <cstring>

#include "backends/bnns/accelerate.h"
#include "backends/bnns/bnns.h"
#include "backends/bnns/loops.h"

namespace traingraph::bnns {
namespace {

constexpr std::size_t kTile = 1024;

// How an operand's elements come in the order of the result that it broadcasts to: neighbouring
// axes with one distance are joined, outermost first; distance 0 repeats.
class Operand {
 public:
  Operand(const Shape& operand, const Shape& result) {
    const Shape dense = ir::dense_strides(operand);
    const std::size_t missing = result.size() - operand.size();
    for (std::size_t axis = 0; axis < result.size(); ++axis) {
      if (result[axis] == 1) continue;
      const bool moves = axis >= missing && operand[axis - missing] != 1;
      const Axis next{extent(result[axis]), moves ? extent(dense[axis - missing]) : 0};
      if (!axes_.empty() && axes_.back().distance == next.distance * next.count) {
        axes_.back() = {axes_.back().count * next.count, next.distance};
      } else {
        axes_.push_back(next);
      }
    }
    if (axes_.empty()) axes_.push_back({1, 1});
  }

  // One element per element of the result, in the same order.
  bool dense() const { return axes_.size() == 1 && axes_[0].distance == 1; }
  // One element for all.
  bool number() const { return axes_.size() == 1 && axes_[0].distance == 0; }

  // Writes the elements at the result's positions begin … begin + count - 1.
  void expand(const float* source, std::size_t begin, std::size_t count, float* tile) const {
    const Axis& inner = axes_.back();
    while (count > 0) {
      const std::size_t at = begin % inner.count;
      const std::size_t length = std::min(count, inner.count - at);
      const float* from = source + offset(begin / inner.count) + at * inner.distance;
      if (inner.distance == 0) {
        vDSP_vfill(from, tile, 1, length);
      } else {
        std::copy_n(from, length, tile);
      }
      begin += length;
      tile += length;
      count -= length;
    }
  }

 private:
  struct Axis {
    std::size_t count, distance;
  };

  std::size_t offset(std::size_t row) const {
    std::size_t found = 0;
    for (std::size_t axis = axes_.size() - 1; axis-- > 0;) {
      found += row % axes_[axis].count * axes_[axis].distance;
      row /= axes_[axis].count;
    }
    return found;
  }

  std::vector<Axis> axes_;
};

class Elementwise final : public Kernel {
 public:
  Elementwise(const ir::Graph& graph, const ir::Node& node, const ir::ScalarList& list)
      : list_(list),
        inputs_(node.inputs),
        outputs_(node.outputs),
        count_(elements(graph.type(node.outputs[0]).shape)),
        registers_(extent(list.registers())),
        workspace_(workspace_of(graph, node)) {
    const Shape& result = graph.type(node.outputs[0]).shape;
    for (ir::ValueId id : inputs_) operands_.emplace_back(graph.type(id).shape, result);
    for (const ir::Instruction& code : list_.code) loops_.push_back(loop_of(code.function));
    // What the last instruction computes may go straight to the only result.
    straight_ = list_.results.size() == 1 && !list_.code.empty() &&
                list_.results[0] == list_.registers() - 1;
  }

  std::size_t workspace_bytes() const override { return registers_.size() * kTile * sizeof(float); }

  void run(Pointers pointers) override {
    float* space = reinterpret_cast<float*>(pointers[workspace_]);
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (!operands_[i].number()) continue;
      vDSP_vfill(read(pointers, inputs_[i]), space + i * kTile, 1, kTile);
      registers_[i] = space + i * kTile;
    }
    for (std::size_t begin = 0; begin < count_; begin += kTile) {
      compute(pointers, space, begin, std::min(kTile, count_ - begin));
    }
  }

 private:
  void compute(Pointers pointers, float* space, std::size_t begin, std::size_t count) {
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      const float* source = read(pointers, inputs_[i]);
      if (operands_[i].number()) continue;
      registers_[i] = operands_[i].dense() ? source + begin : space + i * kTile;
      if (!operands_[i].dense()) operands_[i].expand(source, begin, count, space + i * kTile);
    }
    for (std::size_t k = 0; k < loops_.size(); ++k) {
      const ir::Instruction& code = list_.code[k];
      const std::size_t at = operands_.size() + k;
      float* result = straight_ && k + 1 == loops_.size() ? write(pointers, outputs_[0]) + begin
                                                          : space + at * kTile;
      loops_[k](operand(code.x), operand(code.y), static_cast<float>(code.p),
                static_cast<float>(code.q), result, count);
      registers_[at] = result;
    }
    if (straight_) return;
    // Behind all reads of this tile, for a result may replace an operand's bytes.
    for (std::size_t r = 0; r < outputs_.size(); ++r) {
      std::memmove(write(pointers, outputs_[r]) + begin, operand(list_.results[r]),
                   count * sizeof(float));
    }
  }

  const float* operand(int number) const {
    return number < 0 ? nullptr : registers_[static_cast<std::size_t>(number)];
  }

  ir::ScalarList list_;
  std::vector<ir::ValueId> inputs_, outputs_;
  std::size_t count_;
  std::vector<Operand> operands_;
  std::vector<Loop> loops_;
  std::vector<const float*> registers_;  // where each register's tile is now
  bool straight_ = false;
  std::size_t workspace_;
};

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<Elementwise>(graph, node,
                                       std::get<ir::ElementwiseAttributes>(node.attributes).list);
}

}  // namespace

const std::vector<KernelEntry>& elementwise_entries() {
  static const std::vector<KernelEntry> entries = {{ir::Op::elementwise, plain_float32, make}};
  return entries;
}

}  // namespace traingraph::bnns
