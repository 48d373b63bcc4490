// MPSCNNSoftMax, MPSCNNLogSoftMax and their gradients, whose second image is the forward result.
#include "backends/metal/named_kernels.h"

namespace traingraph::metal {
namespace {

template <class K>
Ref<MPSCNNKernel*> forward(const ir::Node&, id<MTLDevice> gpu, const std::string&) {
  return Ref<MPSCNNKernel*>::own([[K alloc] initWithDevice:gpu]);
}
template <class K>
Ref<MPSCNNGradientKernel*> gradient(const ir::Node&, id<MTLDevice> gpu) {
  return Ref<MPSCNNGradientKernel*>::own([[K alloc] initWithDevice:gpu]);
}

}  // namespace

std::vector<NamedKernel> named_softmax() {
  using Log = MPSCNNLogSoftMax;
  return {
      {"MPSCNNSoftMax", refuses_one_source, make_forward<forward<MPSCNNSoftMax>>},
      {"MPSCNNSoftMaxGradient", refuses_two_sources,
       make_gradient<forward<MPSCNNSoftMax>, gradient<MPSCNNSoftMaxGradient>>},
      {"MPSCNNLogSoftMax", refuses_one_source, make_forward<forward<Log>>},
      {"MPSCNNLogSoftMaxGradient", refuses_two_sources,
       make_gradient<forward<Log>, gradient<MPSCNNLogSoftMaxGradient>>},
  };
}

}  // namespace traingraph::metal
