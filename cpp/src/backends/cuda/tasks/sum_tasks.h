// Reductions over axes as tasks: sums, norms and counts of values that are not finite. For .cu
// files only.
#pragma once

#include "backends/cuda/device/storage.h"
#include "backends/cuda/tasks/tasks.h"
#include "ir/attributes.h"

// Sums are split by shape alone and added in a fixed order, so that every run and every device of a
// kind gives the same bits. They are in float64, which is cheap beside the memory traffic.
namespace traingraph::cuda {

constexpr int kSumColumns = 32, kSumRows = 8;  // of a block that sums down columns

// One op's sums: result `o` begins at kept.offset(o), and element k of its sum is at
// summed.offset(k) from there. `parts` blocks share each sum; a part has `length` elements.
struct SumPlan {
  Walk kept, summed;
  std::int64_t results = 1, count = 1, parts = 1, length = 1;
  ir::ReduceKind kind = ir::ReduceKind::sum;
};

// The term of an element.
template <class T>
__device__ T term_of(ir::ReduceKind kind, T value) {
  if (kind == ir::ReduceKind::sum) return value;
  if (kind == ir::ReduceKind::norm) return value * value;
  return value - value == T(0) ? T(0) : T(1);  // NaN and infinity are not finite
}

// The result, from the sum of terms.
inline __device__ double result_of(ir::ReduceKind kind, double sum) {
  return kind == ir::ReduceKind::norm ? sqrt(sum) : sum;
}

template <class S>
struct Sums {
  SumPlan plan;
  const S* x;
  Compute<S>* y;
  double* partial;  // (parts, results) if there are several parts

  __device__ double term(S value) const {
    return term_of(plan.kind, static_cast<double>(widen(value)));
  }
  // Writes a sum, or one part of it.
  __device__ void put(std::int64_t result, std::int64_t part, double sum) const {
    if (plan.parts == 1) {
      y[result] = static_cast<Compute<S>>(result_of(plan.kind, sum));
    } else {
      partial[part * plan.results + result] = sum;
    }
  }
};

// kLanes threads per result, over contiguous elements, kPack at a time.
template <class S, int kLanes, int kPack>
struct SumRowTasks : Sums<S> {
  using Scratch = NoScratch;

  __device__ void run(int task, Scratch&) const {
    const SumPlan& plan = this->plan;
    const std::int64_t number = (std::int64_t{task} * kThreads + threadIdx.x) / kLanes;
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    if (number >= plan.results * plan.parts) return;
    const std::int64_t result = number / plan.parts, part = number % plan.parts;
    const S* const start = this->x + plan.kept.offset(result);
    const std::int64_t first = part * plan.length;
    const std::int64_t last = first + plan.length < plan.count ? first + plan.length : plan.count;
    double sum = 0;
#pragma unroll 4
    for (std::int64_t k = first + lane * kPack; k < last; k += kLanes * kPack) {
      const S* const at = start + plan.summed.offset(k);
      if constexpr (kPack == 1) {
        sum += this->term(*at);
      } else {
        const auto pack = load<kPack>(at);
        Compute<S> part_sum = 0;
#pragma unroll
        for (int v = 0; v < kPack; ++v) {
          // Squares may overflow float32.
          if (plan.kind == ir::ReduceKind::norm) {
            sum += this->term(pack.element[v]);
          } else {
            part_sum += term_of(plan.kind, widen(pack.element[v]));
          }
        }
        sum += static_cast<double>(part_sum);
      }
    }
    sum = combine<kLanes>(sum, Sum());
    if (lane == 0) this->put(result, part, sum);
  }
};

// Few short sums, one warp each: element k of sum o is at o * result_step + k * step.
template <class S>
struct SmallSumTasks {
  using Scratch = NoScratch;
  int results, count, result_step, step;
  ir::ReduceKind kind;
  const S* x;
  Compute<S>* y;

  __device__ void run(int task, Scratch&) const {
    const int result = (task * kThreads + static_cast<int>(threadIdx.x)) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (result >= results) return;
    const S* const start = x + result * result_step;
    double sum = 0;
#pragma unroll 4
    for (int k = lane; k < count; k += 32) {
      sum += term_of(kind, static_cast<double>(widen(start[k * step])));
    }
    sum = combine<32>(sum, Sum());
    if (lane == 0) y[result] = static_cast<Compute<S>>(result_of(kind, sum));
  }
};

constexpr std::int64_t kMostSmallResults = 512, kMostSmallCount = 512;

// Neighbouring threads take neighbouring results.
template <class S>
struct SumColumnTasks : Sums<S> {
  struct Scratch {
    double sums[kSumRows][kSumColumns];
  };

  __device__ void run(int task, Scratch& scratch) const {
    const SumPlan& plan = this->plan;
    const int column = static_cast<int>(threadIdx.x) % kSumColumns;
    const int row = static_cast<int>(threadIdx.x) / kSumColumns;
    const std::int64_t part = task % plan.parts;
    const std::int64_t result = task / plan.parts * kSumColumns + column;
    double sum = 0;
    if (result < plan.results) {
      const S* const start = this->x + plan.kept.offset(result);
      const std::int64_t first = part * plan.length;
      const std::int64_t last = first + plan.length < plan.count ? first + plan.length : plan.count;
#pragma unroll 4
      for (std::int64_t k = first + row; k < last; k += kSumRows) {
        sum += this->term(start[plan.summed.offset(k)]);
      }
    }
    scratch.sums[row][column] = sum;
    __syncthreads();
    if (row != 0 || result >= plan.results) return;
    for (int other = 1; other < kSumRows; ++other) sum += scratch.sums[other][column];
    this->put(result, part, sum);
  }
};

// The same over dense rows, kPack neighbouring results of a thread at a time.
template <class S>
struct SumPackedColumnTasks : Sums<S> {
  static constexpr int kPack = Pack<S>::kElements;
  struct Scratch {
    double sums[kSumRows][kPack][kSumColumns];
  };

  __device__ void run(int task, Scratch& scratch) const {
    const SumPlan& plan = this->plan;
    const int column = static_cast<int>(threadIdx.x) % kSumColumns;
    const int row = static_cast<int>(threadIdx.x) / kSumColumns;
    const std::int64_t part = task % plan.parts;
    const std::int64_t result = (task / plan.parts * kSumColumns + column) * kPack;
    double sums[kPack] = {};
    if (result < plan.results) {
      const std::int64_t first = part * plan.length;
      const std::int64_t last = first + plan.length < plan.count ? first + plan.length : plan.count;
      // Conversions to float64 take longer than the loads, so that few terms are added before.
      constexpr int kTogether = 4;
      const bool is_sum = plan.kind == ir::ReduceKind::sum;
      std::int64_t k = first + row;
      for (; is_sum && k + (kTogether - 1) * kSumRows < last; k += kTogether * kSumRows) {
        Pack<Compute<S>, kPack> few{};
#pragma unroll
        for (int t = 0; t < kTogether; ++t) {
          const auto pack =
              widen(load<kPack>(this->x + (k + t * kSumRows) * plan.results + result));
#pragma unroll
          for (int v = 0; v < kPack; ++v) few.element[v] += pack.element[v];
        }
#pragma unroll
        for (int v = 0; v < kPack; ++v) sums[v] += static_cast<double>(few.element[v]);
      }
      for (; k < last; k += kSumRows) {
        const auto pack = load<kPack>(this->x + k * plan.results + result);
#pragma unroll
        for (int v = 0; v < kPack; ++v) sums[v] += this->term(pack.element[v]);
      }
    }
#pragma unroll
    for (int v = 0; v < kPack; ++v) scratch.sums[row][v][column] = sums[v];
    __syncthreads();
    if (row != 0 || result >= plan.results) return;
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      for (int other = 1; other < kSumRows; ++other) sums[v] += scratch.sums[other][v][column];
      this->put(result + v, part, sums[v]);
    }
  }
};

}  // namespace traingraph::cuda
