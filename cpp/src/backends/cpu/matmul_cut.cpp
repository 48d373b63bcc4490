// Chooses the blocks of a product that tasks compute: large enough that packing costs little, and
// several where there is work for several threads.
#include "backends/cpu/matmul_cut.h"

#include <algorithm>

namespace traingraph::cpu {
namespace {

// A packed block of a of these rows stays in the second cache, and its results in the last one
// while blocks of K are added.
constexpr std::int64_t kMostRows = 256, kMostColumns = 1024;
constexpr std::int64_t kLeastRows = 48, kLeastColumns = 64, kLeastInner = 512;
// So many tasks, if each has these multiplications, half a millisecond. More would be packed for
// more often: 8 tasks of (256, 2048) (2048, 2048) already cost one thread 2 %.
constexpr std::int64_t kTasks = 8;
constexpr double kTaskMultiplications = 3.0e7;
// What packing an element of a and of b costs, and adding one of a part, in multiplications.
constexpr double kPackingA = 20, kPackingB = 10, kAdding = 40;
// Sums of more terms, which are float32, are added up in float64.
constexpr std::int64_t kMostNarrow = 8192;
// Terms of a part of such a sum.
constexpr std::int64_t kWidePart = 65536;
constexpr std::int64_t kMostWideParts = 64;

std::int64_t ceiling(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

MatmulCut matmul_cut_of(std::int64_t matrices, std::int64_t m, std::int64_t n, std::int64_t k) {
  MatmulCut least{std::max<std::int64_t>(1, ceiling(m, kMostRows)),
                  std::max<std::int64_t>(1, ceiling(n, kMostColumns)), 1, k > kMostNarrow};
  const double multiplications =
      static_cast<double>(matrices * m) * static_cast<double>(n) * static_cast<double>(k);
  const auto wanted = static_cast<std::int64_t>(
      std::clamp(multiplications / kTaskMultiplications, 1.0, static_cast<double>(kTasks)));
  if (least.wide) {
    // Parts of a few results are what there is to share.
    const std::int64_t others = matrices * least.tasks();
    if (others < kTasks) {
      least.parts = std::clamp<std::int64_t>(k / kWidePart, 1, ceiling(kMostWideParts, others));
    }
    return least;
  }
  const std::int64_t most_rows = std::max(least.rows, std::min(m / kLeastRows, kTasks));
  const std::int64_t most_columns = std::max(least.columns, std::min(n / kLeastColumns, kTasks));
  const std::int64_t most_parts = std::max<std::int64_t>(1, std::min(k / kLeastInner, kTasks));
  MatmulCut best = least;
  double best_cost = -1;
  for (std::int64_t rows = least.rows; rows <= most_rows; ++rows) {
    for (std::int64_t columns = least.columns; columns <= most_columns; ++columns) {
      // The fewest parts that are enough.
      const std::int64_t parts = std::min(ceiling(wanted, matrices * rows * columns), most_parts);
      const std::int64_t tasks = matrices * rows * columns * parts;
      double cost = kPackingA * static_cast<double>(columns) / static_cast<double>(n) +
                    kPackingB * static_cast<double>(rows) / static_cast<double>(m) +
                    (parts > 1 ? kAdding * static_cast<double>(parts) / static_cast<double>(k) : 0);
      // Too few of them weigh more than what any cut costs.
      if (tasks < wanted) cost += static_cast<double>(wanted - tasks);
      if (best_cost >= 0 && cost >= best_cost) continue;
      best_cost = cost;
      best.rows = rows;
      best.columns = columns;
      best.parts = parts;
    }
  }
  return best;
}

}  // namespace traingraph::cpu
