#pragma once

#include <algorithm>

#include "backends/cpu/isa/softmax.h"
#include "backends/cpu/parallel.h"
#include "ir/graph.h"

namespace traingraph::cpu {

// A tensor seen as (outer, classes, inner), cut by shape into parts of whole units.
struct ClassUnits {
  ClassRows rows{1, 1};
  std::int64_t units = 0;
  std::int64_t units_per_part = 1;
  int threads = 1;

  ClassUnits(const Shape& shape, int axis) {
    std::int64_t outer = 1;
    for (int k = 0; k < static_cast<int>(shape.size()); ++k) {
      const std::int64_t extent = shape[static_cast<std::size_t>(k)];
      (k < axis ? outer : (k == axis ? rows.classes : rows.inner)) *= extent;
    }
    const std::int64_t width = std::min(rows.inner, kUnitPositions);
    units = rows.inner == 1 ? outer : outer * ((rows.inner + kUnitPositions - 1) / kUnitPositions);
    constexpr std::int64_t kPartElements = 4096;
    units_per_part =
        std::max<std::int64_t>(1, kPartElements / std::max<std::int64_t>(1, width * rows.classes));
    // About half a nanosecond per element: an exponential and three readings.
    threads = threads_for(0.5 * static_cast<double>(element_count(shape)));
  }

  // body(begin, end)
  template <class Body>
  void run(const Body& body) const {
    if (threads <= 1) return body(std::int64_t{0}, units);
    parallel_for((units + units_per_part - 1) / units_per_part, threads, [&](std::int64_t part) {
      const std::int64_t begin = part * units_per_part;
      body(begin, std::min(units, begin + units_per_part));
    });
  }
};

}  // namespace traingraph::cpu
