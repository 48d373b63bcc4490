#include <traingraph/optimizer.h>

#include <utility>

namespace traingraph {

Optimizer::Optimizer(OptimizerDescriptor descriptor) : descriptor_(std::move(descriptor)) {}
Optimizer::~Optimizer() = default;
double Optimizer::corrected(float learning_rate, std::int64_t) const { return learning_rate; }

}  // namespace traingraph
