#include "ops/emit.h"

namespace traingraph::ops {
namespace {

std::vector<ir::Type> infer(const Inference& in) {
  in.expect_inputs(0, 0);
  const auto& a = in.get<ir::ConstantAttributes>();
  if (a.numbers.size() != 1 && a.type.elements() != static_cast<std::int64_t>(a.numbers.size())) {
    in.fail("expected one number or " + std::to_string(a.type.elements()) + " numbers but got " +
            std::to_string(a.numbers.size()));
  }
  return {a.type};
}

}  // namespace

const Definition constant_definition{infer, nullptr, {.stays_finite = always}};

ir::ValueId constant(ir::Graph& graph, ir::Type type, std::vector<double> numbers) {
  return apply1(graph, ir::Op::constant,
                ir::ConstantAttributes{std::move(type), std::move(numbers)}, {});
}

}  // namespace traingraph::ops
