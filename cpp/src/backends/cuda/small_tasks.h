#pragma once

#include <cstring>
#include <optional>
#include <type_traits>

#include "backends/cuda/any_list_tasks.h"
#include "backends/cuda/cross_entropy_tasks.h"
#include "backends/cuda/dropout_tasks.h"
#include "backends/cuda/kernel.h"
#include "backends/cuda/list_tasks.h"
#include "backends/cuda/softmax_tasks.h"
#include "backends/cuda/sum_tasks.h"
#include "backends/cuda/tile_tasks.h"

// The kinds of tasks that a small program knows, by number. For .cu files only.
namespace traingraph::cuda {

template <class... Kinds>
struct KindList {
  static constexpr int kCount = sizeof...(Kinds);
  static constexpr std::size_t kScratchBytes = std::max({sizeof(typename Kinds::Scratch)...});

  // The number of a kind; kCount for none of them.
  template <class Tasks>
  static constexpr int number() {
    constexpr bool same[] = {std::is_same_v<Tasks, Kinds>...};
    int k = 0;
    while (k < kCount && !same[k]) ++k;
    return k;
  }
  // Runs one task of the kind of this number.
  __device__ static void run(int number, const void* tasks, int task, void* scratch) {
    int k = 0;
    ((number == k++ ? static_cast<const Kinds*>(tasks)->run(
                          task, *static_cast<typename Kinds::Scratch*>(scratch))
                    : void()),
     ...);
  }
};

using SmallKinds =
    KindList<TileTasks, ShortListTasks<float>, LossTasks<float, 1>, LossTasks<float, 32>,
             LossGradientTasks<float, 1>, LossGradientTasks<float, 32>, SoftmaxTasks<float, 1>,
             SoftmaxTasks<float, 32>, SoftmaxGradientTasks<float, 1>,
             SoftmaxGradientTasks<float, 32>, SmallSumTasks<float>, DropoutTasks<float>,
             SmallListTasks<lists::Relu>, SmallListTasks<lists::ReluGradient>,
             SmallListTasks<lists::Add>, SmallListTasks<lists::sgd>,
             SmallListTasks<lists::sgd_decay>, SmallListTasks<lists::momentum>,
             SmallListTasks<lists::momentum_decay>, SmallListTasks<lists::nesterov>,
             SmallListTasks<lists::nesterov_decay>, SmallListTasks<lists::adam>,
             SmallListTasks<lists::adam_decay>, SmallListTasks<lists::adam_w>,
             SmallListTasks<lists::rmsprop>, SmallListTasks<lists::rmsprop_momentum>,
             SmallMixedListTasks<lists::stretch>, SmallMixedListTasks<lists::momentum>,
             SmallMixedListTasks<lists::momentum_decay>, SmallMixedListTasks<lists::adam>,
             SmallMixedListTasks<lists::adam_decay>>;  // stretch: a cast

// Tasks as a part of a small program; nothing where it does not know their kind.
template <class Tasks>
std::optional<SmallWork> small_work(const Tasks& tasks, unsigned count) {
  static_assert(std::is_trivially_copyable_v<Tasks>);
  constexpr int kKind = SmallKinds::number<Tasks>();
  if (kKind == SmallKinds::kCount) return std::nullopt;
  SmallWork work{kKind, static_cast<int>(count), std::vector<std::byte>(sizeof tasks)};
  std::memcpy(work.arguments.data(), &tasks, sizeof tasks);
  return work;
}

}  // namespace traingraph::cuda
