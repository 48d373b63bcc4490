#pragma once

#include <memory>
#include <vector>

#include <traingraph/describe.h>
#include <traingraph/optimizer.h>

namespace traingraph {

// An optimizer is made of a descriptor, or of the numbers that make one, and of what it has itself.
// `make` takes the descriptor and what is given.
template <class T, class Make>
void describe_forms(Describing<T, Optimizer>& described, const std::vector<Argument>& own,
                    Make make) {
  const ClassDescription& common = OptimizerDescriptor::class_description();
  std::vector<Argument> of_descriptor{
      argument<OptimizerDescriptor>("descriptor", "The numbers that all optimizers share.")};
  std::vector<Argument> of_numbers = common.forms.front().arguments;
  of_descriptor.insert(of_descriptor.end(), own.begin(), own.end());
  of_numbers.insert(of_numbers.end(), own.begin(), own.end());
  described
      .form(of_descriptor,
            [make](const Given& given) {
              return make(given.get<OptimizerDescriptor>("descriptor"), given);
            })
      .form(of_numbers, [make, &common](const Given& given) {
        OptimizerDescriptor descriptor;
        common.set_fields(&descriptor, given);
        return make(descriptor, given);
      });
}

}  // namespace traingraph
