#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <traingraph/mps/mps.h>

#include "networks.h"

// Where the networks of the MPS layer get their weights from, and how these are updated.
namespace benchmarks {

namespace mps = traingraph::mps;

// An optimizer of a layer's own, and the vectors it keeps for two rows of numbers.
struct Updated {
  Updated(const mps::Device& on, bool adam, std::int64_t first, std::int64_t second) {
    traingraph::OptimizerDescriptor d;
    d.learning_rate = adam ? 1e-3f : 0.01f;
    if (adam) {
      optimizer = std::make_shared<mps::NNOptimizerAdam>(on, 0.9, 0.999, 1e-8f, 0, d);
    } else {
      d.regularization_type = traingraph::RegularizationType::kL2;
      d.regularization_scale = 5e-4f;
      optimizer = std::make_shared<mps::NNOptimizerStochasticGradientDescent>(on, 0.9f, false, d);
    }
    for (int slot = 0; slot < (adam ? 2 : 1); ++slot) {
      slots.push_back(
          {std::make_shared<mps::Vector>(on, first), std::make_shared<mps::Vector>(on, second)});
    }
  }
  std::shared_ptr<mps::NNOptimizer> optimizer;
  std::vector<std::vector<mps::VectorPtr>> slots;
};

class Weights final : public mps::CNNConvolutionDataSource {
 public:
  // `values` (outputs, inputs, size, size); `stride` in pixels.
  Weights(const mps::Device& on, bool adam, Numbers& numbers, const Layer& layer,
          std::int64_t inputs, std::int64_t size)
      : updated(on, adam, layer.outputs * inputs * size * size, layer.outputs) {
    descriptor_.kernel_width = descriptor_.kernel_height = size;
    descriptor_.input_feature_channels = inputs;
    descriptor_.output_feature_channels = layer.outputs;
    descriptor_.stride_in_pixels_x = descriptor_.stride_in_pixels_y = layer.stride;
    const std::int64_t pixels = size * size;
    const std::vector<float> planes = numbers.weights(layer.outputs, inputs, pixels);
    values_.resize(planes.size());
    for (std::int64_t o = 0; o < layer.outputs; ++o) {
      for (std::int64_t i = 0; i < inputs; ++i) {
        for (std::int64_t p = 0; p < pixels; ++p) {
          values_[static_cast<std::size_t>((o * pixels + p) * inputs + i)] =
              planes[static_cast<std::size_t>((o * inputs + i) * pixels + p)];
        }
      }
    }
    if (layer.kind == Layer::Kind::kDense) {
      biases_.resize(static_cast<std::size_t>(layer.outputs), 0.0f);
    }
  }
  mps::CNNConvolutionDescriptor descriptor() const override { return descriptor_; }
  const void* weights() const override { return values_.data(); }
  const void* bias_terms() const override { return biases_.empty() ? nullptr : biases_.data(); }
  std::shared_ptr<mps::CNNConvolutionWeightsAndBiasesState> update(
      mps::CommandBuffer& buffer, const std::shared_ptr<mps::CNNConvolutionGradientState>& gradient,
      const std::shared_ptr<mps::CNNConvolutionWeightsAndBiasesState>& source) override {
    updated.optimizer->encode(buffer, *gradient, *source, updated.slots, *source);
    return source;
  }
  // New ones with these values, for kernels encoded by hand.
  std::shared_ptr<mps::CNNConvolutionWeightsAndBiasesState> state(const mps::Device& on) const {
    const auto bytes = [&](const std::vector<float>& values) {
      return std::make_shared<mps::Buffer>(on, values.data(), values.size() * sizeof(float));
    };
    return std::make_shared<mps::CNNConvolutionWeightsAndBiasesState>(
        bytes(values_), biases_.empty() ? nullptr : bytes(biases_));
  }

  Updated updated;

 private:
  mps::CNNConvolutionDescriptor descriptor_;
  std::vector<float> values_, biases_;
};

class Normalization final : public mps::CNNBatchNormalizationDataSource {
 public:
  Normalization(const mps::Device& on, bool adam, std::int64_t channels)
      : updated(on, adam, channels, channels),
        ones_(static_cast<std::size_t>(channels), 1.0f),
        zeros_(static_cast<std::size_t>(channels), 0.0f) {
    const std::size_t bytes = ones_.size() * sizeof(float);
    state_ = std::make_shared<mps::CNNNormalizationGammaAndBetaState>(
        std::make_shared<mps::Buffer>(on, ones_.data(), bytes),
        std::make_shared<mps::Buffer>(on, zeros_.data(), bytes));
  }
  std::int64_t number_of_feature_channels() const override {
    return static_cast<std::int64_t>(ones_.size());
  }
  const float* gamma() const override { return ones_.data(); }
  const float* beta() const override { return zeros_.data(); }
  const float* mean() const override { return zeros_.data(); }
  const float* variance() const override { return ones_.data(); }
  float epsilon() const override { return 1e-5f; }
  std::shared_ptr<mps::CNNNormalizationGammaAndBetaState> update_gamma_and_beta(
      mps::CommandBuffer& buffer, const BatchState& state) override {
    updated.optimizer->encode(buffer, *state, *state, updated.slots, *state_);
    return state_;
  }

  Updated updated;

 private:
  std::vector<float> ones_, zeros_;
  std::shared_ptr<mps::CNNNormalizationGammaAndBetaState> state_;
};

// What the layers of a table begin with, in their order.
class Sources {
 public:
  Sources(const mps::Device& device, const Workload& workload)
      : on(device), channels_(workload.channels), size_(workload.size), adam_(workload.adam) {}

  std::shared_ptr<Weights> weights(const Layer& layer) {
    const bool dense = layer.kind == Layer::Kind::kDense;
    auto made = std::make_shared<Weights>(
        on, adam_, numbers_, layer, dense ? channels_ : layer.inputs, dense ? size_ : layer.kernel);
    channels_ = layer.outputs;
    size_ = dense ? 1 : size_ / layer.stride;
    return made;
  }
  std::shared_ptr<Normalization> normalization(const Layer& layer) {
    return std::make_shared<Normalization>(on, adam_, layer.outputs);
  }
  mps::KernelWindow window(const Layer& layer) {
    mps::KernelWindow window;
    window.kernel_width = window.kernel_height = layer.kernel;
    window.stride_x = window.stride_y = layer.stride;
    size_ /= layer.stride;
    return window;
  }
  // Two branches begin from one size and end with one.
  template <class First, class Second>
  void branches(const First& first, const Second& second) {
    const auto before = std::pair(channels_, size_);
    first();
    const auto after = std::pair(channels_, size_);
    std::tie(channels_, size_) = before;
    second();
    std::tie(channels_, size_) = after;
  }

  const mps::Device on;

 private:
  Numbers numbers_;
  std::int64_t channels_, size_;  // of an image by now
  bool adam_;
};

inline mps::CNNLossDescriptor loss_descriptor() {
  mps::CNNLossDescriptor d;
  d.loss_type = mps::CNNLossType::kSoftMaxCrossEntropy;
  d.reduction_type = mps::CNNReductionType::kMean;
  d.reduce_across_batch = true;
  return d;
}

inline mps::NeuronDescriptor relu_descriptor() {
  mps::NeuronDescriptor d;
  d.type = mps::NeuronType::kReLU;
  d.a = 0;
  return d;
}

}  // namespace benchmarks
