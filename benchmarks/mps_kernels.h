#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "mps_sources.h"

// The layers of a table as MPS kernels that are encoded one by one. What they make is temporary and
// read as often as the neighbours say.
namespace benchmarks {

class Kernels {
 public:
  virtual ~Kernels() = default;
  virtual mps::ImageBatch forward(mps::CommandBuffer& buffer, mps::ImageBatch x) = 0;
  virtual mps::ImageBatch gradient(mps::CommandBuffer& buffer, const mps::ImageBatch& dy) = 0;
  virtual void update(mps::CommandBuffer&) {}

  // In one step: of the source image, and of the gradient that comes in.
  std::int64_t reads = 2, gradient_reads = 1;
  // Of the result by the layer behind, of the source's gradient by the layer before.
  std::int64_t result_reads = 1, source_gradient_reads = 1;

 protected:
  static mps::ImageBatch readable(mps::ImageBatch images, std::int64_t reads) {
    if (reads > 1) mps::increment_read_count(images, reads - 1);
    return images;
  }
};
using KernelsPtr = std::unique_ptr<Kernels>;

// A kernel and its gradient kernel.
template <class Forward, class Gradient>
class Filter : public Kernels {
 public:
  Filter(std::shared_ptr<Forward> forward, std::shared_ptr<Gradient> gradient)
      : kernel_(std::move(forward)), gradient_kernel_(std::move(gradient)) {}
  mps::ImageBatch forward(mps::CommandBuffer& buffer, mps::ImageBatch x) override {
    source_ = std::move(x);
    return readable(kernel_->encode_batch(buffer, source_, states_, true), result_reads);
  }
  mps::ImageBatch gradient(mps::CommandBuffer& buffer, const mps::ImageBatch& dy) override {
    return readable(gradient_kernel_->encode_batch(buffer, dy, source_, states_),
                    source_gradient_reads);
  }

 protected:
  std::shared_ptr<Forward> kernel_;
  std::shared_ptr<Gradient> gradient_kernel_;
  mps::ImageBatch source_;
  mps::StateBatch states_;
};

template <class Forward, class Gradient, class... Arguments>
KernelsPtr make_filter(const mps::Device& on, const Arguments&... arguments) {
  return std::make_unique<Filter<Forward, Gradient>>(std::make_shared<Forward>(on, arguments...),
                                                     std::make_shared<Gradient>(on, arguments...));
}

// A convolution or fully connected layer: both kernels load what the optimizer has made.
template <class Forward, class Gradient>
class Weighted final : public Filter<Forward, Gradient> {
 public:
  Weighted(const mps::Device& on, const std::shared_ptr<Weights>& data)
      : Filter<Forward, Gradient>(std::make_shared<Forward>(on, data),
                                  std::make_shared<Gradient>(on, data)),
        data_(data),
        state_(data->state(on)) {}
  mps::ImageBatch forward(mps::CommandBuffer& buffer, mps::ImageBatch x) override {
    mps::ImageBatch result = Filter<Forward, Gradient>::forward(buffer, std::move(x));
    this->states_[0]->set_read_count(2);  // by the gradient kernel and by the optimizer
    return result;
  }
  void update(mps::CommandBuffer& buffer) override {
    data_->update(buffer,
                  std::static_pointer_cast<mps::CNNConvolutionGradientState>(this->states_[0]),
                  state_);
    this->kernel_->reload_weights_and_biases(buffer, *state_);
    this->gradient_kernel_->reload_weights_and_biases(buffer, *state_);
  }

 private:
  std::shared_ptr<Weights> data_;
  std::shared_ptr<mps::CNNConvolutionWeightsAndBiasesState> state_;
};

// The four kernels of batch normalization over one state.
class Normalized final : public Kernels {
 public:
  Normalized(const mps::Device& on, std::shared_ptr<Normalization> data)
      : data_(std::move(data)),
        on_(on),
        statistics_(on),
        kernel_(std::make_shared<mps::CNNBatchNormalization>(on, data_)),
        statistics_gradient_(on),
        gradient_kernel_(on) {
    reads = 4;
    gradient_reads = 2;
  }
  mps::ImageBatch forward(mps::CommandBuffer& buffer, mps::ImageBatch x) override {
    source_ = std::move(x);
    state_ = std::static_pointer_cast<mps::CNNBatchNormalizationState>(
        kernel_->result_state_batch(source_, &buffer)[0]);
    state_->set_read_count(5);
    statistics_.encode_batch(buffer, source_, *state_);
    mps::ImageBatch y = {mps::Image::temporary(buffer, source_[0]->descriptor())};
    kernel_->encode_batch(buffer, source_, *state_, y);
    return readable(std::move(y), result_reads);
  }
  mps::ImageBatch gradient(mps::CommandBuffer& buffer, const mps::ImageBatch& dy) override {
    statistics_gradient_.encode_batch(buffer, dy, source_, *state_);
    return readable(gradient_kernel_.encode_batch(buffer, dy, source_, *state_),
                    source_gradient_reads);
  }
  void update(mps::CommandBuffer& buffer) override {
    kernel_->reload_gamma_and_beta(buffer, *data_->update_gamma_and_beta(buffer, state_));
  }

 private:
  std::shared_ptr<Normalization> data_;
  mps::Device on_;
  mps::CNNBatchNormalizationStatistics statistics_;
  std::shared_ptr<mps::CNNBatchNormalization> kernel_;
  mps::CNNBatchNormalizationStatisticsGradient statistics_gradient_;
  mps::CNNBatchNormalizationGradient gradient_kernel_;
  mps::ImageBatch source_;
  std::shared_ptr<mps::CNNBatchNormalizationState> state_;
};

// Layers one after the other; an empty one hands on what it is given.
class Chain final : public Kernels {
 public:
  explicit Chain(std::vector<KernelsPtr> layers) : layers_(std::move(layers)) {
    for (std::size_t k = 1; k < layers_.size(); ++k) {
      layers_[k - 1]->result_reads = layers_[k]->reads;
      layers_[k]->source_gradient_reads = layers_[k - 1]->gradient_reads;
    }
    reads = layers_.empty() ? 1 : layers_.front()->reads;
    gradient_reads = layers_.empty() ? 1 : layers_.back()->gradient_reads;
  }
  mps::ImageBatch forward(mps::CommandBuffer& buffer, mps::ImageBatch x) override {
    for (const KernelsPtr& layer : layers_) x = layer->forward(buffer, std::move(x));
    return x;
  }
  mps::ImageBatch gradient(mps::CommandBuffer& buffer, const mps::ImageBatch& dy) override {
    mps::ImageBatch dx = dy;
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
      dx = (*layer)->gradient(buffer, dx);
    }
    return dx;
  }
  void update(mps::CommandBuffer& buffer) override {
    for (const KernelsPtr& layer : layers_) layer->update(buffer);
  }

 private:
  std::vector<KernelsPtr> layers_;
};

// body(x) + shortcut(x); the gradient of each summand is the one that comes in.
class Sum final : public Kernels {
 public:
  Sum(const mps::Device& on, std::unique_ptr<Chain> body, std::unique_ptr<Chain> shortcut)
      : add_(on, mps::CNNArithmeticOperation::kAdd),
        body_(std::move(body)),
        shortcut_(std::move(shortcut)) {
    reads = body_->reads + shortcut_->reads;
    gradient_reads = body_->gradient_reads + shortcut_->gradient_reads;
  }
  mps::ImageBatch forward(mps::CommandBuffer& buffer, mps::ImageBatch x) override {
    const mps::ImageBatch left = body_->forward(buffer, x), right = shortcut_->forward(buffer, x);
    return readable(add_.encode_batch(buffer, left, right), result_reads);
  }
  mps::ImageBatch gradient(mps::CommandBuffer& buffer, const mps::ImageBatch& dy) override {
    const mps::ImageBatch left = body_->gradient(buffer, dy);
    const mps::ImageBatch right = shortcut_->gradient(buffer, dy);
    return readable(add_.encode_batch(buffer, left, right), source_gradient_reads);
  }
  void update(mps::CommandBuffer& buffer) override {
    body_->update(buffer);
    shortcut_->update(buffer);
  }

 private:
  mps::CNNArithmetic add_;
  std::unique_ptr<Chain> body_, shortcut_;
};

inline std::unique_ptr<Chain> make_kernels(Sources& sources, const Layers& layers) {
  const mps::Device& on = sources.on;
  std::vector<KernelsPtr> made;
  const auto relu = [&] {
    return make_filter<mps::CNNNeuron, mps::CNNNeuronGradient>(on, relu_descriptor());
  };
  for (const Layer& layer : layers) {
    switch (layer.kind) {
      case Layer::Kind::kDense:
        made.push_back(
            std::make_unique<Weighted<mps::CNNFullyConnected, mps::CNNFullyConnectedGradient>>(
                on, sources.weights(layer)));
        break;
      case Layer::Kind::kConvolution:
        made.push_back(std::make_unique<Weighted<mps::CNNConvolution, mps::CNNConvolutionGradient>>(
            on, sources.weights(layer)));
        break;
      case Layer::Kind::kBatchNorm:
        made.push_back(std::make_unique<Normalized>(on, sources.normalization(layer)));
        break;
      case Layer::Kind::kRelu:
        made.push_back(relu());
        break;
      case Layer::Kind::kMaxPool:
      case Layer::Kind::kAverage: {
        // Windows beside each other: any policy gives the same ones.
        const auto type = layer.kind == Layer::Kind::kMaxPool ? mps::CNNPoolingType::kMax
                                                              : mps::CNNPoolingType::kAverage;
        made.push_back(
            make_filter<mps::CNNPooling, mps::CNNPoolingGradient>(on, type, sources.window(layer)));
        break;
      }
      case Layer::Kind::kResidual: {
        std::unique_ptr<Chain> body, shortcut;
        sources.branches([&] { body = make_kernels(sources, layer.body); },
                         [&] { shortcut = make_kernels(sources, layer.shortcut); });
        made.push_back(std::make_unique<Sum>(on, std::move(body), std::move(shortcut)));
        made.push_back(relu());
        break;
      }
    }
  }
  return std::make_unique<Chain>(std::move(made));
}

}  // namespace benchmarks
