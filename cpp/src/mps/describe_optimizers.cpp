#include "mps/kernel_description.h"

namespace traingraph::mps {

void describe_optimizers(KernelTable& table) {
  constexpr const char* kDescriptor = "optimizer_descriptor";
  using Sgd = NNOptimizerStochasticGradientDescent;
  OldDescribing<Sgd>(table, "MPSNNOptimizerStochasticGradientDescent")
      .argument("momentum_scale", &Sgd::momentum_scale)
      .argument("use_nesterov_momentum", &Sgd::use_nesterov_momentum)
      .argument(kDescriptor, &Sgd::descriptor)
      .made_of<float, bool, OptimizerDescriptor>();
  using RmsProp = NNOptimizerRMSProp;
  OldDescribing<RmsProp>(table, "MPSNNOptimizerRMSProp")
      .argument("decay", &RmsProp::decay)
      .argument("epsilon", &RmsProp::epsilon)
      .argument(kDescriptor, &RmsProp::descriptor)
      .made_of<double, float, OptimizerDescriptor>();
  using Adam = NNOptimizerAdam;
  OldDescribing<Adam>(table, "MPSNNOptimizerAdam")
      .argument("beta1", &Adam::beta1)
      .argument("beta2", &Adam::beta2)
      .argument("epsilon", &Adam::epsilon)
      .argument("time_step", &Adam::time_step)
      .argument(kDescriptor, &Adam::descriptor)
      .made_of<double, double, float, std::int64_t, OptimizerDescriptor>();
}

}  // namespace traingraph::mps
