// An MLP from data to accuracy: a point of the square lies inside the circle or not.
#include <cstdio>
#include <vector>

#include <traingraph/traingraph.h>

namespace tg = traingraph;

int main() {
  std::vector<float> x;
  std::vector<std::int32_t> y;
  for (int i = 0; i < 1000; ++i) {
    x.insert(x.end(), {static_cast<float>(i % 37) / 18 - 1, static_cast<float>(i % 41) / 20 - 1});
    y.push_back(x[x.size() - 2] * x[x.size() - 2] + x.back() * x.back() < 0.6f ? 1 : 0);
  }
  const auto model = tg::nn::model({tg::nn::dense(32), "relu", tg::nn::dense(2)},
                                   {.input = {2}, .optimizer = tg::nn::adam(0.01f)});
  const auto inputs = tg::TensorData::of(x.data(), {1000, 2});
  const auto labels = tg::TensorData::copy_of(y.data(), 4000, tg::DataType::kInt32, {1000});
  tg::FitArguments data{.inputs = {{"x", inputs}}, .loss_labels = {{"y", labels}}, .epochs = 30};
  std::printf("loss %.3f\n", model->fit(data).back().loss);
  std::printf("accuracy %.3f\n", *model->evaluate(data).accuracy);
}
