// Fits y = 2 x + 5 by Adam: linear regression as an application would train it inside.
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>

#include <traingraph/traingraph.h>

namespace tg = traingraph;

namespace {

bool train() {
  constexpr int kSamples = 4;
  std::array<float, kSamples> inputs = {0, 1, 2, 3};
  std::array<float, kSamples> labels = {5, 7, 9, 11};

  const tg::TensorPtr x = tg::Tensor::create({{kSamples, 1}});
  const tg::TensorPtr y = tg::Tensor::create({{kSamples, 1}});
  const tg::TensorPtr weight = tg::Tensor::filled({{1, 1}}, 0.0);
  const tg::TensorPtr bias = tg::Tensor::filled({{1, 1}}, 0.0);

  const auto graph = std::make_shared<tg::Graph>();
  graph->node(std::make_shared<tg::FullyConnected>(weight, bias, tg::ConvolutionDescriptor{}), x);

  tg::TrainingGraph training(
      {graph}, std::make_shared<tg::Loss>(tg::LossDescriptor{}),
      std::make_shared<tg::Adam>(tg::OptimizerDescriptor{.learning_rate = 0.3f}));
  training.add_inputs({{"x", x}}, {{"y", y}});
  training.compile(tg::CompilationOptions::kNone, tg::Device::cpu());

  tg::ExecutionArguments step;
  step.inputs = {{"x", tg::TensorData::of(inputs.data(), {kSamples, 1})}};
  step.loss_labels = {{"y", tg::TensorData::of(labels.data(), {kSamples, 1})}};
  step.options = tg::ExecutionOptions::kSynchronous;
  for (int i = 0; i < 500; ++i) training.execute(step);

  float slope = 0;
  float offset = 0;
  training.synchronize_updates();
  weight->copy_to(&slope, sizeof slope);
  bias->copy_to(&offset, sizeof offset);
  std::printf("y = %.3f x + %.3f\n", slope, offset);
  return std::abs(slope - 2) < 1e-2f && std::abs(offset - 5) < 1e-2f;
}

}  // namespace

int main() {
  try {
    return train() ? 0 : 1;
  } catch (const tg::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
