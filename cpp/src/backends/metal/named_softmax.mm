// MPSCNNSoftMax, MPSCNNLogSoftMax and their gradients, whose second image is the forward result.
#include "backends/metal/named_kernels.h"

namespace traingraph::metal {

std::vector<NamedKernel> named_softmax() {
  using Log = MPSCNNLogSoftMax;
  return {
      {"MPSCNNSoftMax", refuses_one_source, make_forward<plain<MPSCNNSoftMax>>},
      {"MPSCNNSoftMaxGradient", refuses_two_sources,
       make_gradient<plain<MPSCNNSoftMax>, plain_gradient<MPSCNNSoftMaxGradient>>},
      {"MPSCNNLogSoftMax", refuses_one_source, make_forward<plain<Log>>},
      {"MPSCNNLogSoftMaxGradient", refuses_two_sources,
       make_gradient<plain<Log>, plain_gradient<MPSCNNLogSoftMaxGradient>>},
  };
}

}  // namespace traingraph::metal
