#include <traingraph/mps/classes.h>

#include "mps/description/describe_kernel.h"

namespace traingraph::mps {

const std::vector<ClassDescription>& state_classes() {
  static const Classes table = [] {
    Classes classes;
    for (const auto describe :
         {describe_state_bases, describe_dropout_states, describe_arithmetic_states,
          describe_loss_states, describe_states}) {
      describe(classes);
    }
    return classes;
  }();
  return table;
}

}  // namespace traingraph::mps
