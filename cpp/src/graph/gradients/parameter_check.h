// The numerical check of one parameter's gradient, which check_gradients makes for each parameter.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <traingraph/check_gradients.h>

#include "graph/gradients/float64_loss.h"
#include "graph/gradients/slopes.h"

namespace traingraph {

// The loss at a point, and where all numbers are off by a rounding of the device's type: made when
// they are asked for, none where the device rounds as differences do.
class RoundedLosses {
 public:
  RoundedLosses(const GradientPoint& point, double rounding)
      : exact(point), point_(point), rounding_(rounding) {}

  Float64Loss exact;
  std::size_t count() const { return rounding_ == 0 ? 0 : 3; }
  Float64Loss& rounded(std::size_t k);

 private:
  const GradientPoint& point_;
  const double rounding_;
  std::vector<std::unique_ptr<Float64Loss>> rounded_;
};

// The gradient beside differences of the loss, which are made at once.
class ParameterCheck {
 public:
  // An empty gradient is 0. `bound` is relative to its largest element.
  ParameterCheck(RoundedLosses& losses, const TensorPtr& tensor, std::vector<double> gradient,
                 double bound);

  // The largest element of the gradient, by differences; 0 where they cannot tell it from 0.
  double scale() const { return vanishes_ ? 0 : largest_slope(); }
  // Without names. `beside`, above 0: the scale of the graph's gradients.
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
    bool explained = false;  // by rounding, or not
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
  bool is_nothing_beside(double beside) const;

  // Quotients are those of this loss from now on, by as many workers as so many of them are worth.
  void begin(Float64Loss& loss, std::size_t quotients);
  void for_each(const std::vector<Compared*>& some,
                const std::function<void(std::size_t worker, Compared& one)>& work);
  // The loss after a move, which is undone. `distance`: how far it was, as rounded.
  LossElements moved(std::size_t worker, const Compared& one, double by, double& distance);
  Quotients quotients(std::size_t worker, const Compared& one, double step);
  // Whether the loss stays what it is even over the largest step.
  bool is_flat();
  // Looks closer at what deviates, and excludes kinks. Whether that changed anything.
  bool refine();
  // Excludes what rounding explains: slopes that change as much where all numbers do by as little.
  bool explain();

  RoundedLosses& losses_;
  const TensorPtr tensor_;
  const double bound_;
  std::vector<double> gradient_;
  std::vector<Compared> compared_;
  std::vector<std::unique_ptr<LossOfParameter>> workers_;
  std::vector<double> home_;
  LossElements middle_;
  double noise_ = 0;       // what rounding may change a difference by
  double resolution_ = 0;  // and a slope
  bool vanishes_ = true;   // differences cannot tell the gradient from 0
};

}  // namespace traingraph
