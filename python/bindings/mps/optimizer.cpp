// Vectors, and what optimizers encode.
#include "classes/described_class.h"
#include "mps/encoding.h"
#include "mps/mps_bindings.h"

namespace traingraph::python {
namespace {

using mps::NNOptimizer;
using mps::VectorPtr;

// The names of an optimizer's own vectors in its encode forms: "input_momentum" …
using SlotNames = std::vector<std::string>;

template <class Slot>
std::vector<Slot> slots_of(const Arguments& arguments, const SlotNames& names, const char* end) {
  std::vector<Slot> slots;
  for (const std::string& name : names) {
    const std::string full = name + end;
    if (!arguments[full].is_none()) slots.push_back(arguments.get<Slot>(full));
  }
  return slots;
}

void def_update(py::module_& module, const char* kind, const SlotNames& names) {
  auto cls = described<NNOptimizer>(module, kind);
  const std::string begin = "command_buffer: MTLCommandBuffer, ";
  std::string one, several;
  for (const std::string& name : names) {
    one += ", " + name + "_vector: MPSVector | None = None";
    several += ", " + name + "_vectors: list[MPSVector] | None = None";
  }
  def_method(
      cls, "encode", "None",
      {begin +
           "input_gradient_vector: MPSVector, input_values_vector: MPSVector, "
           "result_values_vector: MPSVector" +
           one,
       begin +
           "convolution_gradient_state: MPSCNNConvolutionGradientState, "
           "convolution_source_state: MPSCNNConvolutionWeightsAndBiasesState, "
           "result_state: MPSCNNConvolutionWeightsAndBiasesState" +
           several,
       begin +
           "batch_normalization_state: MPSCNNBatchNormalizationState, "
           "result_state: MPSCNNNormalizationGammaAndBetaState" +
           several,
       begin +
           "batch_normalization_gradient_state: MPSCNNBatchNormalizationState, "
           "batch_normalization_source_state: MPSCNNBatchNormalizationState, "
           "result_state: MPSCNNNormalizationGammaAndBetaState" +
           several},
      "Encodes one update. The vectors are changed in place; lists hold one for weights or gamma "
      "and one for biases or beta. Errors: sizes that differ; a state without gradients.",
      [names](NNOptimizer& self, const Arguments& a) {
        mps::CommandBuffer& buffer = command_buffer(a);
        if (a.given("input_values_vector")) {
          self.encode(buffer, a.get<VectorPtr>("input_gradient_vector"),
                      a.get<VectorPtr>("input_values_vector"),
                      slots_of<VectorPtr>(a, names, "_vector"),
                      a.get<VectorPtr>("result_values_vector"));
          return;
        }
        const auto slots = slots_of<std::vector<VectorPtr>>(a, names, "_vectors");
        if (a.given("convolution_gradient_state")) {
          using Gradient = std::shared_ptr<mps::CNNConvolutionGradientState>;
          using Weights = std::shared_ptr<mps::CNNConvolutionWeightsAndBiasesState>;
          self.encode(buffer, *a.get<Gradient>("convolution_gradient_state"),
                      *a.get<Weights>("convolution_source_state"), slots,
                      *a.get<Weights>("result_state"));
          return;
        }
        const bool apart = a.given("batch_normalization_gradient_state");
        const auto state = [&a, apart](const char* name) {
          return a.get<std::shared_ptr<mps::CNNBatchNormalizationState>>(
              apart ? name : "batch_normalization_state");
        };
        self.encode(
            buffer, *state("batch_normalization_gradient_state"),
            *state("batch_normalization_source_state"), slots,
            *a.get<std::shared_ptr<mps::CNNNormalizationGammaAndBetaState>>("result_state"));
      });
}

}  // namespace

void bind_mps_optimizer(py::module_& module) {
  bind_described(module, mps::Vector::class_description(), ownership<mps::Vector>());
  def_update(module, "MPSNNOptimizerStochasticGradientDescent", {"input_momentum"});
  def_update(module, "MPSNNOptimizerRMSProp", {"input_sum_of_squares"});
  def_update(module, "MPSNNOptimizerAdam",
             {"input_momentum", "input_velocity", "maximum_velocity"});
}

}  // namespace traingraph::python
