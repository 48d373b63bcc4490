#include <traingraph/mps/classes.h>
#include <traingraph/mps/coding.h>

#include "mps/description/describe_kernel.h"

namespace traingraph::mps {
namespace {

// What is true of every kernel that does not say otherwise.
constexpr const char* kShapesOfGradients =
    "the source gradient as the forward kernel's result, the result as its source.";
constexpr const char* kErrors =
    "a number outside its range, and an archive of another class; at an encoding, images and "
    "states that do not fit.";

// Of every class that has another form.
Form coder_form(const std::string& kind) {
  return {{argument<std::shared_ptr<const Coder>>("coder", "NSCoder, such as MPSKeyedUnarchiver."),
           optional_argument<Device>("device", "The device; without it the coder's.")},
          [kind](const Given& given) {
            const std::any* const device = given.find("device");
            return std::any(kernel_with_coder(
                kind, *given.get<std::shared_ptr<const Coder>>("coder"),
                device->has_value() ? std::optional(given.get<Device>("device")) : std::nullopt));
          }};
}

}  // namespace

const std::vector<ClassDescription>& kernel_classes() {
  static const Classes table = [] {
    Classes classes;
    for (const auto describe : {
             describe_bases,
             describe_neurons,
             describe_pooling,
             describe_filters,
             describe_reductions,
             describe_arithmetic,
             describe_losses,
             describe_optimizers,
             describe_normalizations,
             describe_weighted_kernels,
         }) {
      describe(classes);
    }
    for (ClassDescription& one : classes) {
      if (one.forms.empty()) continue;
      one.forms.push_back(coder_form(one.name));
      if (one.name.ends_with("Gradient")) add_section(one, "Shapes:", kShapesOfGradients);
      add_section(one, "Errors:", kErrors);
    }
    return classes;
  }();
  return table;
}

}  // namespace traingraph::mps
