#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <traingraph/check_gradients.h>

#include "graph/float64_loss.h"
#include "graph/slopes.h"
#include "runtime/interruption.h"

namespace traingraph {

struct Tolerance {
  double bound;
  double rounding;  // one of the type; 0 where differences are rounded alike
};

// The gradient of one parameter beside differences of the loss, which are made at once.
class ParameterCheck {
 public:
  // An empty gradient is 0.
  ParameterCheck(Float64Loss& whole, const Tensor& tensor, std::vector<double> gradient,
                 Tolerance tolerance);

  // The largest element of the gradient, by differences; 0 where they cannot tell it from 0.
  double scale() const { return vanishes_ ? 0 : largest_slope(); }
  // Without names. `beside`, above 0: the scale of one that vanishes.
  GradientRow row(double beside) const;

 private:
  // One element or direction.
  struct Compared {
    std::int64_t element = -1;  // of the dense tensor; -1: a direction
    std::uint64_t direction = 0;
    double gradient = 0;
    double usual = 0;  // the quotient of the usual step
    double slope = 0;  // that, or a better one
    double doubt = 0;
    bool refined = false;
    bool excluded = false;

    double deviation() const;
  };

  // The sign that a direction has at an element. Its entries are of one size, its length is 1.
  static double sign_at(std::uint64_t direction, std::size_t element);
  double entry_size() const;
  void list();
  double largest_slope() const;
  // Above this a slope deviates: the bound at this scale, or what differences can show.
  double allowed(double scale) const;

  // Begins where the whole loss is now.
  void start();
  // The loss after a move, which is undone. `distance`: how far it was, as rounded.
  LossElements moved(const Compared& one, double by, double& distance);
  Quotients quotients(const Compared& one, double step);
  // Whether the loss stays what it is even over the largest step.
  bool is_flat();
  // Looks closer at what deviates, and excludes kinks. Whether that changed anything.
  bool refine();
  // Excludes what rounding explains: slopes that change as much where all numbers do by as little.
  bool excuse_rounding();

  Float64Loss& whole_;
  const Tolerance tolerance_;
  const Shape shape_;
  std::vector<double> gradient_;
  std::vector<Compared> compared_;
  std::unique_ptr<LossOfParameter> loss_;
  std::vector<double> home_;
  LossElements middle_;
  double noise_ = 0;       // what rounding may change a difference by
  double resolution_ = 0;  // and a slope
  bool vanishes_ = true;   // differences cannot tell the gradient from 0
  bool is_shaken_ = false;
  Interruptible interruption_;
};

}  // namespace traingraph
