// A graph of MPS nodes in this module's copy of the core: which states its data source is handed.
#include <pybind11/stl.h>

#include <span>
#include <string>
#include <vector>

#include <traingraph/mps/mps.h>

#include "testing.h"

namespace traingraph::testing {
namespace {

using Gradient = std::shared_ptr<mps::CNNConvolutionGradientState>;

// One weight of 1. Watches what it is handed, and may keep it.
class Watching final : public mps::CNNConvolutionDataSource {
 public:
  mps::CNNConvolutionDescriptor descriptor() const override {
    mps::CNNConvolutionDescriptor d;
    d.kernel_width = d.kernel_height = 1;
    d.input_feature_channels = d.output_feature_channels = 1;
    return d;
  }
  mps::SourceNumbers weights() const override { return std::span(&weight_, 1); }
  std::shared_ptr<mps::CNNConvolutionWeightsAndBiasesState> update(
      mps::CommandBuffer&, const Gradient& gradient,
      const std::shared_ptr<mps::CNNConvolutionWeightsAndBiasesState>&) override {
    same.push_back(gradient == last_.lock());
    last_ = gradient;
    if (keeps == "state") state_ = gradient;
    if (keeps == "buffer") buffer_ = gradient->gradient_for_weights();
    if (keeps == "nothing") state_ = nullptr, buffer_ = nullptr;
    return nullptr;
  }

  std::string keeps = "nothing";
  std::vector<bool> same;  // as in the call before

 private:
  float weight_ = 1;
  std::weak_ptr<mps::State> last_;
  Gradient state_;
  std::shared_ptr<mps::Buffer> buffer_;
};

mps::ImagePtr pixel(const mps::Device& on, float value) {
  const mps::ImagePtr image = mps::Image::create(on, {});
  image->write_bytes(&value, sizeof(value), mps::DataLayout::kChannelsHeightWidth, 0);
  return image;
}

// Encodings by what the data source keeps of each: whether it was handed the state of the encoding
// before again.
std::vector<bool> handed_again(const std::string& device, const std::vector<std::string>& keeps) {
  const mps::Device on = mps::Device::named(device);
  const auto source = std::make_shared<Watching>();
  const auto node =
      std::make_shared<mps::CNNConvolutionNode>(std::make_shared<mps::NNImageNode>(), source);
  const auto loss =
      std::make_shared<mps::CNNLossNode>(node->result_image(), mps::CNNLossDescriptor{});
  mps::NNGraph graph(on, {loss->training_graph()[0]->result_image()}, {false});
  for (const std::string& kept : keeps) {
    source->keeps = kept;
    const auto labels = std::make_shared<mps::CNNLossLabels>(pixel(on, 0), pixel(on, 6), nullptr);
    const mps::CommandBufferPtr buffer = on.make_command_queue()->make_command_buffer();
    graph.encode_batch(*buffer, {{pixel(on, 2)}}, {{labels}});
    buffer->commit();
    buffer->wait_until_completed();
  }
  return source->same;
}

// Of a gradient kernel that computes what is printed for its loss.
void give_loss_without_printed_gradient() {
  mps::CNNLossDescriptor d;
  d.loss_type = mps::CNNLossType::kHuber;
  mps::NNLossGradient kernel(mps::Device::named("reference"), d);
  kernel.set_header_formula(true);
  d.loss_type = mps::CNNLossType::kMeanSquaredError;
  kernel.set_descriptor(d);
}

}  // namespace

void bind_nodes(py::module_& module) {
  module.def("handed_again", handed_again);
  module.def("give_loss_without_printed_gradient", give_loss_without_printed_gradient);
}

}  // namespace traingraph::testing
