// The step of linreg, policy and mlp_small from C++, with arguments made once: what a call costs
// without Python. Prints workload, threads and microseconds per step (the tenth percentile).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <traingraph/traingraph.h>

namespace {

using namespace traingraph;  // NOLINT: a program, not a library

struct Network {
  std::shared_ptr<TrainingGraph> training;
  ExecutionArguments arguments;
};

// Fully connected layers of these widths with ReLU between them; source (rows, widths[0]).
Network perceptron(std::int64_t rows, const std::vector<std::int64_t>& widths, LossType loss,
                   OptimizerPtr optimizer) {
  const auto x = Tensor::create(TensorDescriptor({rows, widths.front()}));
  const bool classes = loss == LossType::kSoftmaxCrossEntropy;
  const Shape shape = classes ? Shape{rows} : Shape{rows, widths.back()};
  const auto y =
      Tensor::create(TensorDescriptor(shape, classes ? DataType::kInt32 : DataType::kFloat32));
  std::vector<LayerPtr> layers;
  for (std::size_t k = 1; k < widths.size(); ++k) {
    if (k > 1)
      layers.push_back(std::make_shared<Activation>(ActivationDescriptor(ActivationType::kReLU)));
    layers.push_back(std::make_shared<FullyConnected>(widths[k - 1], widths[k]));
  }
  const auto graph = std::make_shared<Graph>();
  sequential(*graph, x, layers);
  LossDescriptor descriptor;
  descriptor.type = loss;
  Network network;
  network.training = std::make_shared<TrainingGraph>(
      std::vector<GraphPtr>{graph}, std::make_shared<Loss>(descriptor), std::move(optimizer));
  network.training->add_inputs({{"x", x}}, {{"y", y}});
  network.training->compile(CompilationOptions::kNone, Device::named("cpu"));
  const std::vector<float> source(static_cast<std::size_t>(rows * widths.front()), 0.5f);
  const std::vector<float> labels(static_cast<std::size_t>(element_count(shape)), 0.0f);
  network.arguments.inputs = {
      {"x", TensorData::copy_of(source.data(), source.size() * 4, DataType::kFloat32,
                                x->descriptor().shape)}};
  network.arguments.loss_labels = {{"y", TensorData::copy_of(labels.data(), labels.size() * 4,
                                                             y->descriptor().data_type, shape)}};
  network.arguments.options = ExecutionOptions::kSynchronous;
  return network;
}

double microseconds(const Network& network) {
  constexpr int kGroups = 200, kSteps = 100;
  std::vector<double> times;
  for (int group = 0; group < kGroups; ++group) {
    const auto start = std::chrono::steady_clock::now();
    for (int step = 0; step < kSteps; ++step) network.training->execute(network.arguments);
    const std::chrono::duration<double, std::micro> taken =
        std::chrono::steady_clock::now() - start;
    times.push_back(taken.count() / kSteps);
  }
  std::nth_element(times.begin(), times.begin() + kGroups / 10, times.end());
  return times[kGroups / 10];
}

}  // namespace

int main(int count, char** words) {
  const int threads = count > 1 ? std::atoi(words[1]) : 1;
  Platform::set_thread_count(threads);
  OptimizerDescriptor rate;
  rate.learning_rate = 1e-3f;
  const Network linreg =
      perceptron(4, {1, 1}, LossType::kMeanSquaredError, std::make_shared<Adam>(rate));
  std::printf("linreg %d %.3f\n", threads, microseconds(linreg));
  const Network policy =
      perceptron(1, {2, 100, 4}, LossType::kSoftmaxCrossEntropy, std::make_shared<Adam>(rate));
  std::printf("policy %d %.3f\n", threads, microseconds(policy));
  rate.learning_rate = 0.01f;
  const Network small = perceptron(32, {64, 128, 64, 10}, LossType::kSoftmaxCrossEntropy,
                                   std::make_shared<SGD>(rate, 0.9f));
  std::printf("mlp_small %d %.3f\n", threads, microseconds(small));
  return 0;
}
