#include "backends/cuda/products/tensor_core_attention_kernel.h"

namespace traingraph::cuda {

template std::unique_ptr<Kernel> make_tensor_core_attention<float, false>(const ir::Graph&,
                                                                          const ir::Node&,
                                                                          const Context&);

}  // namespace traingraph::cuda
