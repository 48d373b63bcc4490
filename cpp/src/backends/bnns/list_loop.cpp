#include "backends/bnns/list_loop.h"

#include <algorithm>
#include <cstring>

#include "ir/ending.h"

namespace traingraph::bnns {
namespace {

constexpr std::size_t kTile = 1024;

// The bare result, then what the list reads besides.
std::vector<ir::ValueId> epilogue_inputs(const ir::Node& node, std::size_t own_inputs) {
  std::vector<ir::ValueId> inputs{node.outputs[0]};
  inputs.insert(inputs.end(), node.inputs.begin() + static_cast<std::ptrdiff_t>(own_inputs),
                node.inputs.end());
  return inputs;
}

}  // namespace

// --- operands ----------------------------------------------------------------------------------

Operand::Operand(const Shape& operand, const Shape& result) {
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

void Operand::expand(const float* source, std::size_t begin, std::size_t count, float* tile) const {
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

std::size_t Operand::offset(std::size_t row) const {
  std::size_t found = 0;
  for (std::size_t axis = axes_.size() - 1; axis-- > 0;) {
    found += row % axes_[axis].count * axes_[axis].distance;
    row /= axes_[axis].count;
  }
  return found;
}

// --- lists -------------------------------------------------------------------------------------

ListLoop::ListLoop(const ir::Graph& graph, const ir::ScalarList& list,
                   std::vector<ir::ValueId> inputs, std::vector<ir::ValueId> outputs)
    : list_(list),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      count_(elements(graph.type(outputs_[0]).shape)),
      tile_(std::min(kTile, count_)),
      registers_(extent(list.registers())),
      straight_(list.results.size() == 1 && !list.code.empty() &&
                list.results[0] == list.registers() - 1) {
  const Shape& result = graph.type(outputs_[0]).shape;
  for (std::size_t i = 0; i < extent(list.inputs); ++i) {
    operands_.emplace_back(graph.type(inputs_[i]).shape, result);
    copied_.push_back(std::find(list.results.begin(), list.results.end(), static_cast<int>(i)) !=
                      list.results.end());
  }
  for (const ir::Instruction& code : list_.code) loops_.push_back(loop_of(code.function));
  for (std::size_t r = 0; r < registers_.size(); ++r) {
    const bool where_it_lies =
        r < operands_.size() ? in_place(r) : straight_ && r + 1 == registers_.size();
    places_.push_back(space_);
    if (!where_it_lies) space_ += tile_;
  }
}

void ListLoop::run(Pointers pointers, float* space) {
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (!operands_[i].number()) continue;
    vDSP_vfill(read(pointers, inputs_[i]), space + places_[i], 1, tile_);
    registers_[i] = space + places_[i];
  }
  for (std::size_t begin = 0; begin < count_; begin += tile_) {
    compute(pointers, space, begin, std::min(tile_, count_ - begin));
  }
}

void ListLoop::compute(Pointers pointers, float* space, std::size_t begin, std::size_t count) {
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    const float* source = read(pointers, inputs_[i]);
    if (operands_[i].number()) continue;
    registers_[i] = in_place(i) ? source + begin : space + places_[i];
    if (!in_place(i)) operands_[i].expand(source, begin, count, space + places_[i]);
  }
  for (std::size_t k = 0; k < loops_.size(); ++k) {
    const ir::Instruction& code = list_.code[k];
    const std::size_t at = operands_.size() + k;
    const bool last = straight_ && k + 1 == loops_.size();
    float* result = last ? write(pointers, outputs_[0]) + begin : space + places_[at];
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

// --- epilogues ---------------------------------------------------------------------------------

Epilogue::Epilogue(const ir::Graph& graph, const ir::Node& node, const ir::ScalarList& list,
                   std::size_t own_inputs)
    : exists_(!list.empty()),
      loop_(graph, list, epilogue_inputs(node, own_inputs), {node.outputs[0]}),
      workspace_(workspace_of(graph, node)) {}

bool takes_epilogue(const ir::Graph& graph, const ir::Node& producer, const ir::ScalarList& list,
                    const std::vector<ir::ValueId>& extra) {
  if (!ir::ending_of(list)) return false;
  const auto fits = [&](ir::ValueId id) {
    const ir::Value& value = graph.value(id);
    return value.type.data_type == DataType::kFloat32 && value.layout.plain();
  };
  return fits(producer.outputs[0]) && std::all_of(extra.begin(), extra.end(), fits);
}

}  // namespace traingraph::bnns
