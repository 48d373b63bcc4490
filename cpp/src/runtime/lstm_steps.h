#pragma once

#include <cstdint>
#include <limits>

#include "ir/graph.h"
#include "runtime/kernel.h"

// How host kernels of lstm and lstm_gradient walk over their operands.
namespace traingraph {

struct LstmSteps {
  std::int64_t sequences, steps, hidden;
  bool time_first, reverse;

  LstmSteps(const Shape& gates, const ir::LstmAttributes& a)
      : sequences(gates[a.time_first ? 1 : 0]),
        steps(gates[a.time_first ? 0 : 1]),
        hidden(gates[2] / 4),
        time_first(a.time_first),
        reverse(a.reverse) {}

  // Which step comes k-th.
  std::int64_t step(std::int64_t k) const { return reverse ? steps - 1 - k : k; }
  // The row of (N, T, …) or (T, N, …), and how far those of neighbouring sequences are apart.
  std::int64_t row(std::int64_t sequence, std::int64_t step) const {
    return time_first ? step * sequences + sequence : sequence * steps + step;
  }
  std::int64_t row_distance() const { return time_first ? 1 : steps; }

  // Without lengths all sequences are whole.
  std::int64_t length(const std::int32_t* lengths, std::int64_t sequence) const {
    return lengths == nullptr ? steps : lengths[sequence];
  }
  // Whether they descend from at most `steps` to at least 0.
  bool allows(const std::int32_t* lengths) const {
    if (lengths == nullptr) return true;
    std::int64_t most = steps;
    for (std::int64_t n = 0; n < sequences; ++n) {
      if (lengths[n] < 0 || lengths[n] > most) return false;
      most = lengths[n];
    }
    return true;
  }
  // How many of the sequences from `first` on, up to `count`, reach a step.
  std::int64_t reaching(const std::int32_t* lengths, std::int64_t step, std::int64_t first,
                        std::int64_t count) const {
    if (lengths == nullptr) return count;
    std::int64_t reach = 0;
    while (reach < count && lengths[first + reach] > step) ++reach;
    return reach;
  }
};

}  // namespace traingraph
