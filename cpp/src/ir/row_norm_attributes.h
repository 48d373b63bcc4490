#pragma once

namespace traingraph::ir {

// A row is what the axes from `axis` to the last one hold.
struct RowNormAttributes {
  int axis = 1;
  double epsilon = 1e-5;
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("axis", a.axis);
    f("epsilon", a.epsilon);
  }
  bool operator==(const RowNormAttributes&) const = default;
};

}  // namespace traingraph::ir
