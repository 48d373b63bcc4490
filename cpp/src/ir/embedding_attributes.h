#pragma once

#include <cstdint>

namespace traingraph::ir {

// Rows of a table (count, dimension) by index.
struct EmbeddingAttributes {
  std::int64_t count = 0;     // of rows, which the gradient cannot see
  std::int64_t padding = -1;  // the row that has no gradient; -1: none
  bool by_frequency = false;  // a row's gradient is the mean over its picks, else their sum
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("count", a.count);
    f("padding", a.padding);
    f("by_frequency", a.by_frequency);
  }
  bool operator==(const EmbeddingAttributes&) const = default;
};

// The most that a row's norm, (Σ |x|^order)^(1/order), may be; order may be infinite.
struct RowLimitAttributes {
  double maximum = 1;
  double order = 2;
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("maximum", a.maximum);
    f("order", a.order);
  }
  bool operator==(const RowLimitAttributes&) const = default;
};

// Indices count from `lowest` to `end` - 1. Checks of a graph are numbered.
struct IndexCheckAttributes {
  std::int64_t number = 0;
  std::int64_t lowest = 0;
  std::int64_t end = 0;
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("number", a.number);
    f("lowest", a.lowest);
    f("end", a.end);
  }
  bool operator==(const IndexCheckAttributes&) const = default;
};

}  // namespace traingraph::ir
