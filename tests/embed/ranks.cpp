// One rank of several, with every option of how they train together: prints its number, how many
// there are, and the loss, which all of them have.
#include <cstdio>
#include <vector>

#include <traingraph/traingraph.h>

namespace tg = traingraph;

// Handles of MPI are pointers, or MPICH's int.
[[maybe_unused]] constexpr auto* kOfPointer = &tg::distributed::from_mpi<void*>;
[[maybe_unused]] constexpr auto* kOfInt = &tg::distributed::from_mpi<int>;

int main() {
  const tg::distributed::Communicator world = tg::distributed::world();
  try {
    std::vector<float> x;
    std::vector<std::int32_t> y;
    for (int i = 0; i < 60; ++i) {
      x.insert(x.end(), {static_cast<float>(i % 7) - 3, static_cast<float>(i % 11) - 5});
      y.push_back(x[x.size() - 2] < x.back() ? 1 : 0);
    }
    const auto model = tg::nn::model(
        {tg::nn::dense(8), tg::nn::batch_norm(), "relu", tg::nn::dense(2)},
        {.input = {2},
         .batch_size = 4,
         .distributed = world,
         .ranks = {.synchronized_batch_norm = true,
                   .shard_optimizer = true,
                   .gradient_exchange = tg::DataType::kBFloat16}});
    const auto inputs = tg::TensorData::of(x.data(), {60, 2});
    const auto labels = tg::TensorData::copy_of(y.data(), 240, tg::DataType::kInt32, {60});
    const tg::FitArguments data{
        .inputs = {{"x", inputs}}, .loss_labels = {{"y", labels}}, .epochs = 20};
    std::printf("%d of %d: loss %.6f\n", world.rank(), world.size(), model->fit(data).back().loss);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    world.abandon();
    return 1;
  }
}
