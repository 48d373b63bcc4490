// Ops that make one kind of number of another: compare, one_hot.
#include "ops/emit.h"

namespace traingraph::ops {
namespace {

using ir::CompareAttributes;
using ir::Comparison;
using ir::OneHotAttributes;
using ir::Type;

// x [, y] of one type broadcast against each other → bool. Logical ones take bool.
std::vector<Type> infer_compare(const Inference& in) {
  const Comparison comparison = in.get<CompareAttributes>().comparison;
  const std::size_t count = comparison == Comparison::logical_not ? 1 : 2;
  in.expect_inputs(count, count);
  const DataType type = in.type(0).data_type;
  if (comparison >= Comparison::logical_and && type != DataType::kBoolean) {
    in.fail(std::string("expected bool but got ") + name(type));
  }
  for (std::size_t i = 1; i < count; ++i) {
    if (in.type(i).data_type == type) continue;
    in.fail(std::string("expected one data type but got ") + name(type) + " and " +
            name(in.type(i).data_type));
  }
  return {in.broadcast(DataType::kBoolean)};
}

std::vector<Type> infer_one_hot(const Inference& in) {
  in.expect_inputs(1, 1);
  const auto& a = in.get<OneHotAttributes>();
  Type result = in.type(0);
  const bool integers =
      result.data_type == DataType::kInt32 || result.data_type == DataType::kInt64;
  if (!integers || result.rank() < 2 || result.shape[1] != 1 || a.classes < 1) {
    in.fail("expected classes (N, 1, …) of int32 or int64 but got " + to_string(result));
  }
  result.data_type = a.type;
  result.shape[1] = a.classes;
  return {result};
}

IntegerUse classes_of_one_hot(const ir::Graph& graph, const ir::Node& node) {
  return {node.inputs[0], -1, graph.type(node.outputs[0]).shape[1]};
}

}  // namespace

// What is true or false, and classes, have no derivatives.
const Definition compare_definition{infer_compare, nullptr, {.stays_finite = always}};
const Definition one_hot_definition{
    infer_one_hot, nullptr, {.stays_finite = always, .integers = classes_of_one_hot}};

}  // namespace traingraph::ops
