#pragma once

namespace traingraph::ir {

// A row is what the axes from `axis` to the last one hold.
struct RowNormAttributes {
  int axis = 1;
  double epsilon = 1e-5;
  template <class F>
  void fields(F&& f) const {
    f("axis", axis);
    f("epsilon", epsilon);
  }
  bool operator==(const RowNormAttributes&) const = default;
};

}  // namespace traingraph::ir
