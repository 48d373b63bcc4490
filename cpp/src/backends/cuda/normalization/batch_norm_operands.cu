#include "backends/cuda/normalization/batch_norm.h"

namespace traingraph::cuda {

BatchNormOperands::BatchNormOperands(const ir::Graph&, const ir::Node& node)
    : gradient(node.op == ir::Op::batch_norm_gradient),
      inputs_(node.inputs),
      outputs_(node.outputs) {
  const auto& attributes = std::get<ir::BatchNormAttributes>(node.attributes);
  const ir::Coefficients coefficients = attributes.coefficients;
  if (coefficients == ir::Coefficients::given) given_ = inputs_.size() - 1;
  if (coefficients == ir::Coefficients::result) kept_ = outputs_.size() - 1;
  if (coefficients == ir::Coefficients::alone) {
    kept_ = outputs_.size() - 1;
    y_ = kNowhere;
    mean_ = 0;
  }
  if (attributes.counts_rows) {
    rows_ = gradient ? ir::BatchNormGradientOperands::rows : ir::BatchNormOperands::rows;
  }
  if (attributes.adds_normalized) of_added_ = ir::BatchNormOperands::added_coefficients;
  const ir::ScalarList& list = attributes.epilogue;
  if (list.empty()) return;
  relu_mask_ = attributes.has_relu_mask;
  if (gradient) {
    const ir::GradientPrologue found = *ir::gradient_prologue_of(list);
    using Places = ir::BatchNormGradientOperands;
    const auto place = [](int k) { return k < 0 ? kNowhere : Places::prologue(k); };
    dy_ = place(found.dy);
    added_ = place(found.added);
    result_ = place(found.result);
    if (!attributes.has_residual_pair) beta_ = Places::beta(list.inputs);
  } else {
    const ir::AddReluEpilogue found = *ir::add_relu_epilogue_of(list);
    epilogue = (found.adds ? kAdds : 0) | (found.relu ? kRelu : 0);
  }
}

}  // namespace traingraph::cuda
