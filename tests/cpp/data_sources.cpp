// Data sources in C++ that hand over other numbers than they say, and objects that no shared
// pointer owns.
#include <traingraph/mps/mps.h>

#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "testing.h"

namespace traingraph::testing {
namespace {

constexpr std::int64_t kChannels = 4;

// Numbers of one of two types, which the test changes.
struct Given {
  std::vector<float> floats = std::vector<float>(kChannels, 1);
  std::vector<double> doubles;
  mps::SourceNumbers numbers() const {
    return doubles.empty() ? mps::SourceNumbers(floats) : mps::SourceNumbers(doubles);
  }
};
using GivenPtr = std::shared_ptr<Given>;

class Weights final : public mps::CNNConvolutionDataSource {
 public:
  explicit Weights(GivenPtr given) : given_(std::move(given)) {}
  mps::CNNConvolutionDescriptor descriptor() const override {
    mps::CNNConvolutionDescriptor d;
    d.output_feature_channels = kChannels;
    return d;
  }
  mps::SourceNumbers weights() const override { return given_->numbers(); }

 private:
  GivenPtr given_;
};

class Factors final : public mps::CNNBatchNormalizationDataSource {
 public:
  explicit Factors(GivenPtr given) : given_(std::move(given)) {}
  std::int64_t number_of_feature_channels() const override { return kChannels; }
  mps::SourceNumbers gamma() const override { return given_->numbers(); }
  mps::SourceNumbers beta() const override { return nullptr; }
  mps::SourceNumbers mean() const override { return std::span(zeros_); }
  mps::SourceNumbers variance() const override { return {}; }

 private:
  GivenPtr given_;
  std::array<float, kChannels> zeros_ = {};
};

class ImageFactors final : public mps::CNNInstanceNormalizationDataSource {
 public:
  explicit ImageFactors(GivenPtr given) : given_(std::move(given)) {}
  std::int64_t number_of_feature_channels() const override { return kChannels; }
  mps::SourceNumbers gamma() const override { return given_->numbers(); }
  mps::SourceNumbers beta() const override { return {}; }

 private:
  GivenPtr given_;
};

// Makes a kernel of kChannels, and reads so many numbers of a type in place of its first ones.
void reload_from_source(const std::string& kind, std::size_t count, bool doubles) {
  const mps::Device device = mps::Device::named("reference");
  const auto given = std::make_shared<Given>();
  const auto change = [&] {
    given->floats.assign(doubles ? 0 : count, 2);
    given->doubles.assign(doubles ? count : 0, 2);
  };
  if (kind == "weights") {
    mps::CNNConvolution kernel(device, std::make_shared<Weights>(given));
    change();
    kernel.reload_weights_and_biases_from_data_source();
  } else if (kind == "batch") {
    mps::CNNBatchNormalization kernel(device, std::make_shared<Factors>(given));
    change();
    kernel.reload_gamma_and_beta_from_data_source();
  } else {
    mps::CNNInstanceNormalization kernel(device, std::make_shared<ImageFactors>(given));
    change();
    kernel.reload_gamma_and_beta_from_data_source();
  }
}

// Asks an object on the stack for what would keep it alive.
void ask_without_owner(const std::string& what) {
  const mps::Device device = mps::Device::named("reference");
  const auto source = std::make_shared<Weights>(std::make_shared<Given>());
  const mps::ImagePtr image = mps::Image::create(device, {});
  if (what == "node") {
    mps::CNNConvolutionNode(std::make_shared<mps::NNImageNode>(), source).result_image();
  } else if (what == "buffer") {
    mps::CommandBuffer(device).commit();
  } else if (what == "image") {
    mps::Image(device, {}, image->storage(), 0, false).shared_from_this();
  } else {
    mps::CNNConvolution(device, source).result_state_batch({image}, nullptr);
  }
}

}  // namespace

void bind_data_sources(py::module_& module) {
  module.def("reload_from_source", reload_from_source);
  module.def("ask_without_owner", ask_without_owner);
}

}  // namespace traingraph::testing
