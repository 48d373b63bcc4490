// BNNSOptimizerStep's Adam by the published algorithm: both moments are corrected by the time step
// and epsilon is added to the corrected root (https://arxiv.org/abs/1412.6980).
#include <cmath>

#include "filter.h"

using namespace accelerate_double;

int BNNSOptimizerStep(BNNSOptimizerFunction function, const void* OptimizerAlgFields,
                      std::size_t number_of_parameters, BNNSNDArrayDescriptor** parameters,
                      const BNNSNDArrayDescriptor** gradients, BNNSNDArrayDescriptor** accumulators,
                      const BNNSFilterParameters*) {
  constexpr const char* kCall = "BNNSOptimizerStep";
  if (refuses(kCall)) return -1;
  require(function == BNNSOptimizerFunctionAdam, kCall, "the double knows Adam only");
  require(OptimizerAlgFields != nullptr && parameters != nullptr && gradients != nullptr &&
              accumulators != nullptr,
          kCall, "an argument is null");
  const auto& fields = *static_cast<const BNNSOptimizerAdamFields*>(OptimizerAlgFields);
  require(fields.beta1 >= 0 && fields.beta1 < 1 && fields.beta2 >= 0 && fields.beta2 < 1, kCall,
          "a beta is not from 0 to 1");
  require(fields.time_step >= 1, kCall, "the first time step is 1");
  require(fields.regularization_func == BNNSOptimizerRegularizationNone && !fields.clip_gradients,
          kCall, "the double knows no regularization and no clipping");
  for (std::size_t k = 0; k < number_of_parameters; ++k) {
    // Per parameter a first moment and a second one.
    BNNSNDArrayDescriptor* const moments[] = {accumulators[k],
                                              accumulators[number_of_parameters + k]};
    const std::size_t count = parameters[k] == nullptr ? 0 : parameters[k]->size[0];
    const BNNSNDArrayDescriptor* const arrays[] = {parameters[k], gradients[k], moments[0],
                                                   moments[1]};
    for (const BNNSNDArrayDescriptor* array : arrays) {
      require(array != nullptr && array->data != nullptr, kCall, "an array is null");
      require_described(*array, BNNSDataLayoutVector, kCall);
      require(array->size[0] == count, kCall, "sizes differ");
    }
    for (const BNNSNDArrayDescriptor* array : arrays) {
      for (const BNNSNDArrayDescriptor* other : arrays) {
        require(array == other || !overlap({array->data, 1, count, sizeof(float)},
                                           {other->data, 1, count, sizeof(float)}),
                kCall, "parameter, gradient and accumulators overlap");
      }
    }
    auto* w = static_cast<float*>(parameters[k]->data);
    const auto* g = static_cast<const float*>(gradients[k]->data);
    auto* m = static_cast<float*>(moments[0]->data);
    auto* v = static_cast<float*>(moments[1]->data);
    const float first = 1 - std::pow(fields.beta1, fields.time_step);
    const float second = 1 - std::pow(fields.beta2, fields.time_step);
    const float epsilon = reads("epsilon") ? 0 : fields.epsilon;
    for (std::size_t i = 0; i < count; ++i) {
      const float slope = fields.gradient_scale * g[i];
      m[i] = fields.beta1 * m[i] + (1 - fields.beta1) * slope;
      v[i] = fields.beta2 * v[i] + (1 - fields.beta2) * slope * slope;
      w[i] -= fields.learning_rate * (m[i] / first) / (std::sqrt(v[i] / second) + epsilon);
    }
  }
  return 0;
}
