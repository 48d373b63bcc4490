#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

// Two of the workloads of workloads.py for programs in C++: the table that every surface builds its
// network from, and the numbers it begins with.
namespace benchmarks {

struct Layer {
  enum class Kind { kDense, kConvolution, kBatchNorm, kRelu, kMaxPool, kAverage, kResidual };
  Kind kind;
  std::int64_t inputs = 0, outputs = 0;  // channels; of pooling none
  std::int64_t kernel = 1, stride = 1;
  std::vector<Layer> body, shortcut;  // relu(body(x) + shortcut(x)); no shortcut: x itself
};
using Layers = std::vector<Layer>;

struct Workload {
  std::string name;
  std::int64_t batch, channels, size, classes;
  Layers layers;
  bool adam;  // else momentum 0.9 and weight decay 5e-4, at 0.01
};

inline Layer dense(std::int64_t inputs, std::int64_t outputs) {
  return {Layer::Kind::kDense, inputs, outputs, 1, 1, {}, {}};
}
inline Layer convolution(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel = 3,
                         std::int64_t stride = 1) {
  return {Layer::Kind::kConvolution, inputs, outputs, kernel, stride, {}, {}};
}
inline Layer norm(std::int64_t channels) {
  return {Layer::Kind::kBatchNorm, channels, channels, 1, 1, {}, {}};
}
inline Layer relu() { return {Layer::Kind::kRelu, 0, 0, 1, 1, {}, {}}; }
inline Layer pool(Layer::Kind kind, std::int64_t size) { return {kind, 0, 0, size, size, {}, {}}; }

inline Layer block(std::int64_t inputs, std::int64_t outputs, std::int64_t stride) {
  Layer made{Layer::Kind::kResidual, inputs, outputs, 1, stride, {}, {}};
  made.body = {convolution(inputs, outputs, 3, stride), norm(outputs), relu(),
               convolution(outputs, outputs), norm(outputs)};
  if (stride > 1 || inputs != outputs) {
    made.shortcut = {convolution(inputs, outputs, 1, stride), norm(outputs)};
  }
  return made;
}

inline Workload lenet_digits() {
  return {"lenet_digits",
          64,
          1,
          8,
          10,
          {convolution(1, 32), norm(32), relu(), convolution(32, 64), norm(64), relu(),
           pool(Layer::Kind::kMaxPool, 2), dense(1024, 128), relu(), dense(128, 10)},
          true};
}

inline Workload resnet18_cifar(std::int64_t batch) {
  Layers layers = {convolution(3, 64), norm(64), relu()};
  std::int64_t inputs = 64;
  for (std::int64_t outputs : {64, 128, 256, 512}) {
    layers.push_back(block(inputs, outputs, inputs == outputs ? 1 : 2));
    layers.push_back(block(outputs, outputs, 1));
    inputs = outputs;
  }
  layers.push_back(pool(Layer::Kind::kAverage, 4));
  layers.push_back(dense(512, 10));
  return {"resnet18_cifar", batch, 3, 32, 10, layers, false};
}

// The same numbers for each surface, asked for in the same order.
class Numbers {
 public:
  // (outputs, inputs, kernel, kernel), scaled by the inputs of one output.
  std::vector<float> weights(std::int64_t outputs, std::int64_t inputs, std::int64_t pixels) {
    const float scale = 1 / std::sqrt(static_cast<float>(inputs * pixels));
    return normal(outputs * inputs * pixels, scale);
  }
  std::vector<float> normal(std::int64_t count, float scale) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = scale * distribution_(engine_);
    return values;
  }

 private:
  std::mt19937 engine_{1};
  std::normal_distribution<float> distribution_;
};

}  // namespace benchmarks
