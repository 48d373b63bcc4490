// Marks the rows that a call has brought by comparing their numbers with a number of the step.
#include "layers/real_rows.h"

namespace traingraph {

using ir::Scalar;
using ir::ValueId;

namespace {

bool has_other_rows(const Lowering& lowering, const ir::Type& type) {
  return lowering.takes_fewer_rows && type.batched;
}

// (extent): 1 in the call's rows, else 0. Several rows of it may be one of the batch.
ValueId marks(Lowering& lowering, std::int64_t extent) {
  const auto known = lowering.real_rows.find(extent);
  if (known != lowering.real_rows.end()) return known->second;
  ir::Graph& graph = lowering.graph;
  std::vector<double> numbers(static_cast<std::size_t>(extent));
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    numbers[k] = static_cast<double>(static_cast<std::int64_t>(k) * lowering.batch / extent);
  }
  const ValueId number = ops::constant(graph, {DataType::kInt64, {extent}, true}, numbers);
  const ValueId is_real =
      ops::apply1(graph, ir::Op::compare, ir::CompareAttributes{ir::Comparison::less},
                  {number, lowering.step(ir::StepInput::rows)});
  const ValueId one = ops::filled(graph, {lowering.data_type, {1}, false}, 1);
  const ValueId made = ops::apply1(graph, ir::Op::select, ir::SelectAttributes{}, {is_real, one});
  lowering.real_rows.emplace(extent, made);
  return made;
}

}  // namespace

ValueId real_rows(Lowering& lowering, ValueId x) {
  const ir::Type type = lowering.graph.type(x);
  if (!has_other_rows(lowering, type)) return x;
  Shape beside(type.shape.size(), 1);
  beside[0] = type.shape[0];
  const ValueId counts =
      ops::reshape(lowering.graph, marks(lowering, type.shape[0]), std::move(beside), true);
  const ValueId result = ops::binary(lowering.graph, Scalar::mask, x, counts);
  lowering.zeroed.insert(result);
  return result;
}

ValueId mean_of_rows(Lowering& lowering, ValueId sum, const ir::Type& summed, double factor,
                     double count) {
  const bool fewer = has_other_rows(lowering, summed);
  if (fewer) {
    sum =
        ops::binary(lowering.graph, Scalar::multiply, sum, lowering.step(ir::StepInput::row_share));
    count /= static_cast<double>(lowering.batch);
  }
  factor /= count;
  return factor == 1 ? sum : ops::unary(lowering.graph, Scalar::scale, sum, factor);
}

}  // namespace traingraph
