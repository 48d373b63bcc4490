#include "backends/cuda/products/pipelined_attention_kernel.h"

namespace traingraph::cuda {

template std::unique_ptr<Kernel> make_pipelined_attention<__half>(const ir::Graph&, const ir::Node&,
                                                                  const Context&);

}  // namespace traingraph::cuda
