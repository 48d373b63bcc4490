// A network with a branch and a loss of its own: the quantile of what stands in two columns.
#include <cstdio>
#include <vector>

#include <traingraph/traingraph.h>

namespace tg = traingraph;
namespace nn = traingraph::nn;

int main() {
  std::vector<float> columns, sums;
  for (int i = 0; i < 320; ++i) {
    columns.insert(columns.end(), {static_cast<float>(i % 7) / 7, static_cast<float>(i % 11) / 11});
    sums.push_back(columns[columns.size() - 2] + columns.back());
  }
  const nn::Value x = nn::input({2}), y = nn::input({1});
  const nn::Value p = nn::dense(1)(x + nn::dense(2, {.weights_init = "orthogonal"})(x));
  const nn::Value loss = nn::maximum(0.9 * (p - y), -0.1 * (p - y));
  const auto model = nn::model(
      {.inputs = {x}, .outputs = {p}, .loss = nn::mean(loss), .optimizer = nn::adam(0.01f)});
  const tg::FitArguments data{.inputs = {{"x", tg::TensorData::of(columns.data(), {320, 2})}},
                              .loss_labels = {{"y", tg::TensorData::of(sums.data(), {320, 1})}},
                              .epochs = 60};
  const auto epochs = model->fit(data);
  std::printf("%g\n%g\n", static_cast<double>(epochs.front().loss),
              static_cast<double>(epochs.back().loss));
}
