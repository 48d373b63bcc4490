#include <traingraph/mps/classes.h>

#include "mps/description/describe_kernel.h"

namespace traingraph::mps {

const std::vector<ClassDescription>& value_classes() {
  static const Classes table = [] {
    Classes classes;
    for (const auto describe : {describe_neuron_values, describe_convolution_descriptors,
                                describe_loss_values, describe_optimizer_values}) {
      describe(classes);
    }
    return classes;
  }();
  return table;
}

}  // namespace traingraph::mps
