// MPSCNNSoftMax, its logarithm and their gradients, which traingraph.mps encodes by name; ops are
// shaders. The second operand of a gradient is the forward result.
#include "backends/metal/kernels/named_kernels.h"

namespace traingraph::metal {

std::vector<NamedKernel> named_softmax() {
  using Plain = MPSCNNSoftMax;
  using PlainGradient = MPSCNNSoftMaxGradient;
  using Log = MPSCNNLogSoftMax;
  using LogGradient = MPSCNNLogSoftMaxGradient;
  return {
      forward_row<Plain, plain<Plain>>(),
      gradient_row<PlainGradient, plain<Plain>, plain<PlainGradient>>(),
      forward_row<Log, plain<Log>>(),
      gradient_row<LogGradient, plain<Log>, plain<LogGradient>>(),
  };
}

}  // namespace traingraph::metal
