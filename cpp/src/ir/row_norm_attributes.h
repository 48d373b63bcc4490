#pragma once

namespace traingraph::ir {

// A row is what the axes from `axis` to the last one hold.
struct RowNormAttributes {
  int axis = 1;
  double epsilon = 1e-5;
  // A backend's own form. row_norm (x, gamma, beta) → y alone. row_norm_gradient (dy, x, gamma
  // [, added]) → dx, to which the gradient of another branch is added, and per column the sums of
  // dy x^, of dy and of dx over parts of the rows: (parts, …, row).
  bool affine = false;
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("axis", a.axis);
    f("epsilon", a.epsilon);
    f.unless_empty("affine", a.affine);
  }
  bool operator==(const RowNormAttributes&) const = default;
};

}  // namespace traingraph::ir
