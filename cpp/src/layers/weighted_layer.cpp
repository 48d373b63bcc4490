#include <traingraph/convolution.h>
#include <traingraph/errors.h>

namespace traingraph {

WeightedLayer::WeightedLayer(std::string label, ConvolutionDescriptor descriptor, TensorPtr weights,
                             TensorPtr biases)
    : Layer(std::move(label)), descriptor_(descriptor) {
  if (weights == nullptr) {
    throw InvalidArgument("[" + this->label() + "] expected a weights tensor but got none");
  }
  weights_.tensor = std::move(weights);
  biases_.tensor = std::move(biases);
}

std::vector<TensorParameter*> WeightedLayer::parameters() {
  if (biases_.tensor == nullptr) return {&weights_};
  return {&weights_, &biases_};
}

std::vector<std::pair<std::string, TensorPtr>> WeightedLayer::named_parameters() const {
  return {{"weights", weights_.tensor}, {"biases", biases_.tensor}};
}

}  // namespace traingraph
