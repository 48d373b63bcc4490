// Optimizers of traingraph::nn.
#include "classes/signature.h"
#include "convert/convert.h"
#include "mlcompute/nn_values.h"

namespace traingraph::python {
namespace {

AdamOptions adam_options(const Arguments& given) {
  AdamOptions options;
  options.beta1 = given.get<float>("beta1");
  options.beta2 = given.get<float>("beta2");
  options.epsilon = given.get<float>("epsilon");
  return options;
}

}  // namespace

void bind_nn_optimizers(py::module_& module) {
  const std::string adam = "beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-08";
  def_function(module, "sgd", "MLCSGDOptimizer",
               {"learning_rate: float = 0.01, *, momentum: float = 0.0, nesterov: bool = False"},
               "MLCSGDOptimizer.", [](const Arguments& given) {
                 return nn::sgd(given.get<float>("learning_rate"), given.get<float>("momentum"),
                                given.get<bool>("nesterov"));
               });
  def_function(module, "adam", "MLCAdamOptimizer", {"learning_rate: float = 0.001, *, " + adam},
               "MLCAdamOptimizer.", [](const Arguments& given) {
                 return nn::adam(given.get<float>("learning_rate"), adam_options(given));
               });
  def_function(module, "adamw", "MLCAdamWOptimizer",
               {"learning_rate: float = 0.001, *, weight_decay: float = 0.01, " + adam},
               "MLCAdamWOptimizer.", [](const Arguments& given) {
                 return nn::adamw(given.get<float>("learning_rate"),
                                  given.get<float>("weight_decay"), adam_options(given));
               });
  def_function(module, "rmsprop", "MLCRMSPropOptimizer",
               {"learning_rate: float = 0.001, *, momentum: float = 0.0, alpha: float = 0.99, "
                "epsilon: float = 1e-08, centered: bool = False"},
               "MLCRMSPropOptimizer.", [](const Arguments& given) {
                 RMSPropOptions options;
                 options.momentum = given.get<float>("momentum");
                 options.alpha = given.get<float>("alpha");
                 options.epsilon = given.get<float>("epsilon");
                 options.is_centered = given.get<bool>("centered");
                 return nn::rmsprop(given.get<float>("learning_rate"), options);
               });
}

}  // namespace traingraph::python
