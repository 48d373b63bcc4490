// Which epilogue lists oneDNN computes by the very formulas of ir/scalar.def.
#include "backends/cpu/onednn/kernel.h"

namespace traingraph::cpu {
namespace {

using dnnl::algorithm;
using ir::Instruction;
using ir::Scalar;

bool set_function(Epilogue& epilogue, const Instruction& k) {
  auto set = [&](algorithm function, double alpha = 0) {
    epilogue.function = function;
    epilogue.alpha = static_cast<float>(alpha);
    return true;
  };
  switch (k.function) {
    case Scalar::relu:
      return epilogue.relu = true;
    case Scalar::leaky_relu:
      return k.p != 0 && set(algorithm::eltwise_relu, k.p);
    case Scalar::tanh:
      return k.p == 1 && k.q == 1 && set(algorithm::eltwise_tanh);
    case Scalar::absolute:
      return set(algorithm::eltwise_abs);
    case Scalar::elu:
      return set(algorithm::eltwise_elu, k.p);
    case Scalar::gelu:
      return set(algorithm::eltwise_gelu_tanh);
    default:
      // The others differ from the table, or lose NaN in some of oneDNN's kernels (sigmoid, clip).
      return false;
  }
}

}  // namespace

void Epilogue::append_function(dnnl::post_ops& operations, bool parametric) const {
  if (relu && parametric) {
    operations.append_prelu(0);
  } else if (relu) {
    operations.append_eltwise(algorithm::eltwise_relu, 0, 0);
  } else if (function) {
    operations.append_eltwise(*function, alpha, 0);
  }
}

Argument relu_slope(std::size_t rank) {
  return {DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_WEIGHTS, ir::kNone,
          *describe(Shape(rank, 1), {})};
}

std::optional<Epilogue> epilogue_of(const ir::ScalarList& list) {
  Epilogue epilogue;
  if (list.empty()) return epilogue;
  if (list.inputs > 2 || list.results.size() != 1) return {};
  int current = 0;  // the register that holds the result so far
  for (std::size_t i = 0; i < list.code.size(); ++i) {
    const Instruction& k = list.code[i];
    const bool adds = k.function == Scalar::add && list.inputs == 2 &&
                      ((k.x == current && k.y == 1) || (k.x == 1 && k.y == current));
    if (adds && !epilogue.bias && !epilogue.has_function()) {
      epilogue.bias = true;
    } else if (k.function == Scalar::identity && k.x == current) {
      // a copy
    } else if (k.x != current || epilogue.has_function() || !set_function(epilogue, k)) {
      return {};
    }
    current = list.inputs + static_cast<int>(i);
  }
  if (list.results[0] != current || epilogue.bias != (list.inputs == 2)) return {};
  return epilogue;
}

}  // namespace traingraph::cpu
