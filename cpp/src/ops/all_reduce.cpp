#include "ops/emit.h"

namespace traingraph::ops {
namespace {

constexpr std::size_t kNumbers = 2;  // before the arrays

std::vector<ir::Type> infer(const Inference& in) {
  in.expect_inputs(kNumbers + 1, in.inputs.size());
  for (std::size_t i = 0; i < kNumbers; ++i) {
    if (in.type(i).data_type == DataType::kInt64 && in.type(i).elements() == 1) continue;
    in.fail("expected one int64 number but got " + to_string(in.type(i)));
  }
  std::vector<ir::Type> results;
  for (std::size_t i = kNumbers; i < in.inputs.size(); ++i) {
    const ir::Type& type = in.type(i);
    const bool is_summed =
        type.data_type == DataType::kFloat32 ||
        (type.data_type == DataType::kFloat64 && !in.get<ir::AllReduceAttributes>().in_bfloat16);
    if (!is_summed || type.data_type != in.type(kNumbers).data_type || type.batched) {
      in.fail("expected arrays without a batch, all float32 or all float64, but got " +
              to_string(type));
    }
    results.push_back(type);
  }
  return results;
}

// The loss is the sum of what ranks have of it, so that what each one's array has moved is the sum
// over ranks, too.
void gradient(Gradient& g) {
  std::vector<ir::ValueId> inputs{g.input(0), g.input(1)};
  std::vector<std::size_t> wanted;
  for (std::size_t k = 0; k < g.node.outputs.size(); ++k) {
    if (!g.wants(kNumbers + k) || g.result_gradient(k) == ir::kNone) continue;
    ir::ValueId dy = g.result_gradient(k);
    // Of a batch of one it may still have that as its axis.
    if (g.graph.type(dy).batched) dy = reduce(g.graph, ir::ReduceKind::sum, dy, {0});
    inputs.push_back(dy);
    wanted.push_back(kNumbers + k);
  }
  if (wanted.empty()) return;
  const ir::NodeId node =
      apply(g.graph, ir::Op::all_reduce, g.get<ir::AllReduceAttributes>(), std::move(inputs));
  for (std::size_t k = 0; k < wanted.size(); ++k) g.set(wanted[k], g.graph.node(node).outputs[k]);
}

}  // namespace

const Definition all_reduce_definition{infer, gradient};

}  // namespace traingraph::ops
