// Chooses the blocks of a product that tasks compute: large enough that packing costs little, and
// several where there is work for several threads.
#include "backends/cpu/matmul_cut.h"

#include <algorithm>

#include "ir/extents.h"

namespace traingraph::cpu {
namespace {

// A packed block of a of these rows stays in the second cache.
constexpr std::int64_t kMostRows = 256;
// A thread multiplies blocks of columns that lie side by side as one, so narrow ones cost it
// nothing. A part of K costs its sums.
constexpr std::int64_t kLeastColumns = 64, kLeastInner = 512;
// So many tasks, if each has these multiplications, half a millisecond; blocks of columns have some
// fifty microseconds.
constexpr std::int64_t kTasks = 16;
constexpr double kTaskMultiplications = 3.0e7, kColumnMultiplications = 2.0e6;
// Sums of more terms, which are float32, are added up in float64.
constexpr std::int64_t kMostNarrow = 8192;
// Terms of a part of such a sum.
constexpr std::int64_t kWidePart = 65536;
constexpr std::int64_t kMostWideParts = 64;

}  // namespace

MatmulCut matmul_cut_of(std::int64_t matrices, std::int64_t m, std::int64_t n, std::int64_t k) {
  MatmulCut cut;
  cut.wide = k > kMostNarrow;
  cut.rows = ir::divide_up(m, kMostRows);
  const double multiplications =
      static_cast<double>(matrices * m) * static_cast<double>(n) * static_cast<double>(k);
  const auto missing = [&](double each) {
    const auto wanted = static_cast<std::int64_t>(
        std::clamp(multiplications / each, 1.0, static_cast<double>(kTasks)));
    return ir::divide_up(wanted, matrices * cut.tasks());
  };
  cut.columns =
      std::clamp<std::int64_t>(missing(kColumnMultiplications), ir::divide_up(n, kMostColumns),
                               std::max(ir::divide_up(n, kMostColumns), n / kLeastColumns));
  if (cut.wide) {
    // A few long sums: reading their terms is the work.
    const std::int64_t others = matrices * cut.tasks();
    if (others < kTasks) {
      cut.parts = std::clamp<std::int64_t>(k / kWidePart, 1, ir::divide_up(kMostWideParts, others));
    }
  } else {
    cut.parts = std::clamp<std::int64_t>(missing(kTaskMultiplications), 1,
                                         std::max<std::int64_t>(1, k / kLeastInner));
  }
  return cut;
}

}  // namespace traingraph::cpu
