// The kinds of tasks that a megakernel can execute, by number. For .cu files only.
#pragma once

#include <cstring>
#include <optional>
#include <type_traits>

#include "backends/cuda/kernel/kernel.h"
#include "backends/cuda/tasks/cross_entropy_tasks.h"
#include "backends/cuda/tasks/dropout_tasks.h"
#include "backends/cuda/tasks/interpreted_list_tasks.h"
#include "backends/cuda/tasks/precompiled_list_tasks.h"
#include "backends/cuda/tasks/softmax_tasks.h"
#include "backends/cuda/tasks/sum_tasks.h"
#include "backends/cuda/tasks/tile_tasks.h"

namespace traingraph::cuda {

template <class... Kinds>
struct KindList {
  static constexpr int kCount = sizeof...(Kinds);
  static constexpr std::size_t kScratchBytes = std::max({sizeof(typename Kinds::Scratch)...});

  // The number of a kind; kCount for an unknown kind.
  template <class Tasks>
  static constexpr int number() {
    constexpr bool same[] = {std::is_same_v<Tasks, Kinds>...};
    int k = 0;
    while (k < kCount && !same[k]) ++k;
    return k;
  }
  // Executes one task of the kind with this number.
  __device__ static void run(int number, const void* tasks, int task, void* scratch) {
    int k = 0;
    ((number == k++ ? static_cast<const Kinds*>(tasks)->run(
                          task, *static_cast<typename Kinds::Scratch*>(scratch))
                    : void()),
     ...);
  }
};

using MegakernelKinds = KindList<
    TileTasks, ShortListTasks<float>, LossTasks<float, 1>, LossTasks<float, 32>,
    LossGradientTasks<float, 1>, LossGradientTasks<float, 32>, SoftmaxTasks<float, 1>,
    SoftmaxTasks<float, 32>, SoftmaxGradientTasks<float, 1>, SoftmaxGradientTasks<float, 32>,
    SmallSumTasks<float>, DropoutTasks<float>, SmallListTasks<Relu>, SmallListTasks<ReluGradient>,
    SmallListTasks<Add>, SmallListTasks<ir::precompiled::sgd>,
    SmallListTasks<ir::precompiled::sgd_decay>, SmallListTasks<ir::precompiled::momentum>,
    SmallListTasks<ir::precompiled::momentum_decay>, SmallListTasks<ir::precompiled::nesterov>,
    SmallListTasks<ir::precompiled::nesterov_decay>, SmallListTasks<ir::precompiled::adam>,
    SmallListTasks<ir::precompiled::adam_decay>, SmallListTasks<ir::precompiled::adam_w>,
    SmallListTasks<ir::precompiled::rmsprop>, SmallListTasks<ir::precompiled::rmsprop_momentum>,
    SmallMixedListTasks<ir::precompiled::channel_broadcast>,
    SmallMixedListTasks<ir::precompiled::momentum>,
    SmallMixedListTasks<ir::precompiled::momentum_decay>,
    SmallMixedListTasks<ir::precompiled::adam>,
    SmallMixedListTasks<ir::precompiled::adam_decay>>;  // channel_broadcast: a cast

// Tasks as work of a megakernel; nothing for an unknown kind.
template <class Tasks>
std::optional<MegakernelWork> make_megakernel_work(const Tasks& tasks, unsigned count) {
  static_assert(std::is_trivially_copyable_v<Tasks>);
  constexpr int kKind = MegakernelKinds::number<Tasks>();
  if (kKind == MegakernelKinds::kCount) return std::nullopt;
  MegakernelWork work{kKind, static_cast<int>(count), std::vector<std::byte>(sizeof tasks)};
  std::memcpy(work.arguments.data(), &tasks, sizeof tasks);
  return work;
}

}  // namespace traingraph::cuda
