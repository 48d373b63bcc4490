#include <traingraph/class_description.h>
#include <traingraph/traingraph.h>

namespace traingraph {

const std::vector<DescribedClass>& optimizer_classes() {
  static const std::vector<DescribedClass> table = {
      OptimizerDescriptor::class_description,
      Optimizer::class_description,
      SGD::class_description,
      Adam::class_description,
      AdamW::class_description,
      RMSProp::class_description,
  };
  return table;
}

}  // namespace traingraph
