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
        type.data_type == DataType::kFloat32 || type.data_type == DataType::kFloat64;
    if (!is_summed || type.data_type != in.type(kNumbers).data_type || type.batched) {
      in.fail("expected arrays without a batch, all float32 or all float64, but got " +
              to_string(type));
    }
    results.push_back(type);
  }
  return results;
}

}  // namespace

const Definition all_reduce_definition{infer, nullptr};

}  // namespace traingraph::ops
