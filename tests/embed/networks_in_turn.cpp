// Two networks in turn: one draws points, the other tells them from points around (2, 1).
#include <cstdio>
#include <random>
#include <vector>

#include <traingraph/traingraph.h>

namespace tg = traingraph;
namespace nn = traingraph::nn;

namespace {

constexpr std::int64_t kRows = 64;

tg::TensorData normal(std::vector<float>& values, std::mt19937& random, float x, float y,
                      float deviation) {
  std::normal_distribution<float> noise(0, deviation);
  values.resize(2 * kRows);
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = noise(random) + (k % 2 ? y : x);
  return tg::TensorData::of(values.data(), {kRows, 2});
}

}  // namespace

int main() {
  const nn::Block generator = nn::shared({nn::dense(16), "relu", nn::dense(2)});
  const nn::Block discriminator = nn::shared({nn::dense(16), "leaky_relu", nn::dense(1)});
  const auto wrong = [&](const nn::Value& points, double label) {
    return nn::loss("sigmoid_cross_entropy", discriminator(points), label);
  };
  const nn::Value real = nn::input({2}, {.name = "real"}), z = nn::input({2}, {.name = "z"});
  const nn::Value fake = generator(z);
  const auto d = nn::model({.inputs = {real},
                            .outputs = {discriminator(real)},
                            .loss = wrong(real, 1) + wrong(fake, 0),
                            .optimizer = nn::adam(0.01f, {.beta1 = 0.5f}),
                            .train = {discriminator},
                            .batch_size = kRows});
  const auto g = nn::model({.inputs = {z},
                            .outputs = {fake},
                            .loss = wrong(fake, 1),
                            .optimizer = nn::adam(0.01f, {.beta1 = 0.5f}),
                            .train = {generator},
                            .batch_size = kRows});
  std::mt19937 random(0);
  std::vector<float> points, noise;
  for (int step = 0; step < 2000; ++step) {
    const tg::TensorData around = normal(points, random, 2, 1, 0.5f);
    const tg::TensorData given = normal(noise, random, 0, 0, 1);
    tg::ExecutionArguments of_d, of_g;
    of_d.inputs = {{"real", around}};
    of_d.loss_labels = of_g.inputs = {{"z", given}};
    d->execute(of_d).wait();
    g->execute(of_g).wait();
  }
  const tg::TensorData drawn = g->predict({{"z", normal(noise, random, 0, 0, 1)}});
  const auto* const values = static_cast<const float*>(drawn.bytes);
  double x = 0, y = 0;
  for (std::int64_t k = 0; k < kRows; ++k) {
    x += static_cast<double>(values[2 * k]) / kRows;
    y += static_cast<double>(values[2 * k + 1]) / kRows;
  }
  std::printf("%g\n%g\n", x, y);
  try {
    nn::model({.inputs = {z}, .outputs = {fake}, .train = {nn::dense(2)}});
  } catch (const tg::InvalidArgument& error) {
    std::printf("%s\n", error.what());
  }
}
