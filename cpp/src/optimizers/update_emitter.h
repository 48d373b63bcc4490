// `UpdateEmitter`, with which an optimizer writes its rule, and `emit_updates`, which emits it for
// all parameters.
#pragma once

#include <algorithm>
#include <cfloat>
#include <map>
#include <string>
#include <vector>

#include <traingraph/optimizer.h>

#include "ir/graph.h"

namespace traingraph {

// Registers of one scalar list over the parameter, its gradient (already clipped, rescaled and
// regularized), its slots and the step's numbers.
class UpdateEmitter {
 public:
  int parameter() const { return parameter_; }
  int gradient() const { return gradient_; }
  int slot(const std::string& name);
  int learning_rate();
  int corrected_learning_rate();

  int apply(ir::Scalar function, int x, int y = -1, double p = 0, double q = 0);
  int add(int x, int y) { return apply(ir::Scalar::add, x, y); }
  int subtract(int x, int y) { return apply(ir::Scalar::subtract, x, y); }
  int multiply(int x, int y) { return apply(ir::Scalar::multiply, x, y); }
  int divide(int x, int y) { return apply(ir::Scalar::divide, x, y); }
  int scale(int x, double factor) { return apply(ir::Scalar::scale, x, -1, factor); }
  // factor_x x + factor_y y
  int blend(double factor_x, int x, double factor_y, int y) {
    return apply(ir::Scalar::multiply_add, x, y, factor_x, factor_y);
  }

  void set_parameter(int value) { new_parameter_ = value; }
  void set_slot(const std::string& name, int value) { new_slots_[name] = value; }

 private:
  friend struct UpdateWriter;
  explicit UpdateEmitter(const std::vector<std::string>& slots);

  // Inputs in order: parameter, gradient, slots, learning rate, corrected rate, norm scale, and
  // whether the step counts.
  ir::ScalarList list_;
  int parameter_ = 0;
  int gradient_ = 1;
  std::vector<std::string> slots_;
  int new_parameter_ = -1;
  std::map<std::string, int> new_slots_;
};

// What is added to a root before something is divided by it. A root of 0 belongs to a gradient of
// 0, whose step is 0; no other root is so small that it feels FLT_MIN.
inline double divisible(float epsilon) { return std::max(epsilon, FLT_MIN); }

// One parameter of an update: its value, its gradient, its slots (in the optimizer's order), and
// the layer that the update is counted for.
struct UpdateTarget {
  ir::ValueId parameter;
  ir::ValueId gradient;
  std::vector<ir::ValueId> slots;
  int layer = ir::kNone;
  // Where slots are for a part: that of the parameter and of the gradient.
  struct Part {
    ir::ValueId parameter = ir::kNone;
    ir::ValueId gradient = ir::kNone;
  };
  Part part = {};
};

// Appends the update ops of all parameters: clip, rescale, regularize, update. Where `counts` is
// given and 0, parameters and slots keep their bits. Returns what becomes of each parameter, which
// that of a part does not write.
std::vector<ir::ValueId> emit_updates(ir::Graph& graph, const Optimizer& optimizer,
                                      const std::vector<UpdateTarget>& targets,
                                      ir::ValueId learning_rate,
                                      ir::ValueId corrected_learning_rate,
                                      ir::ValueId counts = ir::kNone);

}  // namespace traingraph
