// Vectors, and what optimizers encode.
#include "described_class.h"
#include "mps_bindings.h"
#include "mps_coding.h"
#include "mps_encoding.h"

namespace traingraph::python {
namespace {

using mps::NNOptimizer;
using mps::VectorPtr;

// The names of an optimizer's own vectors in its encode forms: "input_momentum" …
using SlotNames = std::vector<std::string>;

std::vector<VectorPtr> single_slots(const Arguments& arguments, const SlotNames& names) {
  std::vector<VectorPtr> slots;
  for (const std::string& name : names) {
    const std::string full = name + "_vector";
    const VectorPtr slot = arguments.nullable<VectorPtr>(full.c_str());
    if (slot != nullptr) slots.push_back(slot);
  }
  return slots;
}

std::vector<std::vector<VectorPtr>> paired_slots(const Arguments& arguments,
                                                 const SlotNames& names) {
  std::vector<std::vector<VectorPtr>> slots;
  for (const std::string& name : names) {
    const std::string full = name + "_vectors";
    if (arguments[full.c_str()].is_none()) continue;
    slots.push_back(arguments.get<std::vector<VectorPtr>>(full.c_str()));
  }
  return slots;
}

void def_encode(py::module_& module, const char* kind, const SlotNames& names) {
  auto cls = described<NNOptimizer>(module, kind);
  std::string one, several;
  for (const std::string& name : names) {
    one += name + "_vector: MPSVector | None = None, ";
    several += name + "_vectors: list[MPSVector] | None = None, ";
  }
  // Arguments with a default come last.
  const std::string begin = "command_buffer: MTLCommandBuffer, ";
  const auto without_end = [](std::string text) { return text.substr(0, text.size() - 2); };
  def_method(
      cls, "encode", "None",
      {begin +
           "input_gradient_vector: MPSVector, input_values_vector: MPSVector, "
           "result_values_vector: MPSVector, " +
           without_end(one),
       begin +
           "convolution_gradient_state: MPSCNNConvolutionGradientState, "
           "convolution_source_state: MPSCNNConvolutionWeightsAndBiasesState, "
           "result_state: MPSCNNConvolutionWeightsAndBiasesState, " +
           without_end(several),
       begin +
           "batch_normalization_state: MPSCNNBatchNormalizationState, "
           "result_state: MPSCNNNormalizationGammaAndBetaState, " +
           without_end(several),
       begin +
           "batch_normalization_gradient_state: MPSCNNBatchNormalizationState, "
           "batch_normalization_source_state: MPSCNNBatchNormalizationState, "
           "result_state: MPSCNNNormalizationGammaAndBetaState, " +
           without_end(several)},
      "Encodes one update. The vectors are changed in place; lists hold one for weights or gamma "
      "and one for biases or beta. Errors: sizes that differ; a state without gradients.",
      [names](NNOptimizer& self, const Arguments& a) {
        mps::CommandBuffer& buffer = command_buffer(a);
        if (a.given("input_values_vector")) {
          self.encode(buffer, a.get<VectorPtr>("input_gradient_vector"),
                      a.get<VectorPtr>("input_values_vector"), single_slots(a, names),
                      a.get<VectorPtr>("result_values_vector"));
        } else if (a.given("convolution_gradient_state")) {
          using Weights = std::shared_ptr<mps::CNNConvolutionWeightsAndBiasesState>;
          self.encode(buffer,
                      *a.get<std::shared_ptr<mps::CNNConvolutionGradientState>>(
                          "convolution_gradient_state"),
                      *a.get<Weights>("convolution_source_state"), paired_slots(a, names),
                      *a.get<Weights>("result_state"));
        } else {
          const bool apart = a.given("batch_normalization_gradient_state");
          const auto state = [&a, apart](const char* name) {
            return a.get<std::shared_ptr<mps::CNNBatchNormalizationState>>(
                apart ? name : "batch_normalization_state");
          };
          self.encode(
              buffer, *state("batch_normalization_gradient_state"),
              *state("batch_normalization_source_state"), paired_slots(a, names),
              *a.get<std::shared_ptr<mps::CNNNormalizationGammaAndBetaState>>("result_state"));
        }
      });
}

}  // namespace

void bind_mps_optimizer(py::module_& module) {
  bind_described(module, mps::Vector::class_description(), ownership<mps::Vector>());
  auto descriptor = described<mps::VectorDescriptor>(module, "MPSVectorDescriptor");
  def_factory(descriptor, "vector_bytes_for_length", "int",
              {"length: int, data_type: MPSDataType | str"},
              "How long a row is, with nothing behind it. Units: bytes. Errors: below 1.",
              [](const Arguments& arguments) {
                return mps::VectorDescriptor{arguments.get<std::int64_t>("length"),
                                             {from_mps_data_type(arguments["data_type"])}}
                    .vector_bytes();
              });
  def_coded<mps::NNOptimizerDescriptor>(module, "MPSNNOptimizerDescriptor");
  auto base = described<NNOptimizer>(module, "MPSNNOptimizer");
  def_method(base, "set_learning_rate", "None", {"new_learning_rate: float"},
             "For encodings from now on; compiles nothing. Errors: a rate that is not finite.",
             [](NNOptimizer& self, const Arguments& arguments) {
               self.set_learning_rate(arguments.get<float>("new_learning_rate"));
             });
  def_encode(module, "MPSNNOptimizerStochasticGradientDescent", {"input_momentum"});
  def_encode(module, "MPSNNOptimizerRMSProp", {"input_sum_of_squares"});
  def_encode(module, "MPSNNOptimizerAdam",
             {"input_momentum", "input_velocity", "maximum_velocity"});
}

}  // namespace traingraph::python
