// Emits the update ops of all parameters: clipping, rescaling, regularization and the optimizer's
// rule in one scalar list.
#include "optimizers/update_emitter.h"

#include <algorithm>
#include <cfloat>
#include <limits>

#include <traingraph/errors.h>

#include "ir/scalar_simplify.h"
#include "ops/emit.h"

namespace traingraph {

UpdateEmitter::UpdateEmitter(const std::vector<std::string>& slots) : slots_(slots) {
  list_.inputs = 2 + static_cast<int>(slots.size()) + 4;
}

int UpdateEmitter::slot(const std::string& name) {
  const auto found = std::find(slots_.begin(), slots_.end(), name);
  if (found == slots_.end()) throw InternalError("[optimizer] unknown slot '" + name + "'");
  return 2 + static_cast<int>(found - slots_.begin());
}

int UpdateEmitter::learning_rate() { return 2 + static_cast<int>(slots_.size()); }
int UpdateEmitter::corrected_learning_rate() { return learning_rate() + 1; }

int UpdateEmitter::apply(ir::Scalar function, int x, int y, double p, double q) {
  return list_.add(function, x, y, p, q);
}

namespace {

using ir::Scalar;
using ir::ValueId;

double norm_limit(const OptimizerDescriptor& d) { return d.maximum_clipping_norm; }

double least_of(const ir::Graph& graph, ValueId value) {
  return graph.type(value).data_type == DataType::kFloat64 ? DBL_MIN : double{FLT_MIN};
}

// min(1, limit / norm) as a scalar value; a norm of 0 leaves nothing to clip, whatever the limit.
ValueId scale_from_norm(ir::Graph& graph, ValueId norm, double limit) {
  ir::ScalarList list;
  list.inputs = 1;
  const int least = list.add(Scalar::constant, -1, -1, least_of(graph, norm));
  const int divisor = list.add(Scalar::maximum, 0, least);
  const int ratio = list.add(Scalar::divide, list.add(Scalar::constant, -1, -1, limit), divisor);
  const int one = list.add(Scalar::constant, -1, -1, 1);
  list.results = {list.add(Scalar::minimum, ratio, one)};
  return ops::elementwise(graph, std::move(list), {norm})[0];
}

// sqrt(x² + y²) of two norms, whose squares may not fit: l sqrt(1 + (s / l)²), l being the larger.
ValueId joint_norm(ir::Graph& graph, ValueId x, ValueId y) {
  ir::ScalarList list;
  list.inputs = 2;
  const int larger = list.add(Scalar::maximum, 0, 1);
  const int least = list.add(Scalar::constant, -1, -1, least_of(graph, x));
  const int share = list.add(Scalar::divide, list.add(Scalar::minimum, 0, 1),
                             list.add(Scalar::maximum, larger, least));
  const int sum = list.add(Scalar::affine, list.add(Scalar::square, share), -1, 1, 1);
  list.results = {list.add(Scalar::multiply, larger, list.add(Scalar::sqrt, sum))};
  return ops::elementwise(graph, std::move(list), {x, y})[0];
}

// One scale for every gradient, or kNone when clipping is not by global norm.
ValueId global_scale(ir::Graph& graph, const OptimizerDescriptor& d,
                     const std::vector<UpdateTarget>& targets) {
  if (!d.applies_gradient_clipping ||
      d.gradient_clipping_type != GradientClippingType::kByGlobalNorm || targets.empty()) {
    return ir::kNone;
  }
  const ir::Type scalar{graph.type(targets[0].gradient).data_type, {}, false};
  if (d.custom_global_norm != 0) {
    const double ratio = norm_limit(d) / static_cast<double>(d.custom_global_norm);
    return ops::filled(graph, scalar, std::min(1.0, ratio));
  }
  ValueId total = ir::kNone;
  for (const UpdateTarget& target : targets) {
    const ValueId norm = ops::reduce_all(graph, ir::ReduceKind::norm, target.gradient);
    total = total == ir::kNone ? norm : joint_norm(graph, total, norm);
  }
  return scale_from_norm(graph, total, norm_limit(d));
}

}  // namespace

struct UpdateWriter {
  // Clip, rescale, regularize: the gradient register that the optimizer's rule starts from.
  static void prepare(UpdateEmitter& emitter, const OptimizerDescriptor& d, bool scaled_by_norm,
                      bool decoupled_decay) {
    int g = emitter.gradient_;
    if (d.applies_gradient_clipping && d.gradient_clipping_type == GradientClippingType::kByValue) {
      g = emitter.apply(Scalar::clip, g, -1, d.gradient_clip_min, d.gradient_clip_max);
    }
    if (scaled_by_norm) g = emitter.multiply(g, emitter.corrected_learning_rate() + 1);
    if (d.gradient_rescale != 1.0f) g = emitter.scale(g, d.gradient_rescale);
    const double scale = d.regularization_scale;
    if (d.regularization_type == RegularizationType::kL2 && !decoupled_decay) {
      g = emitter.blend(1, g, scale, emitter.parameter_);
    }
    if (d.regularization_type == RegularizationType::kL1) {
      g = emitter.blend(1, g, scale, emitter.apply(Scalar::sign, emitter.parameter_));
    }
    emitter.gradient_ = g;
  }

  // The new number where the step counts, else the old one: each is −∞ where it does not apply, and
  // the larger of the two is the other with all its bits.
  static int chosen(UpdateEmitter& e, int now, int before) {
    constexpr double kLowest = -std::numeric_limits<double>::infinity();
    const int counts = e.corrected_learning_rate() + 2;
    const int skips = e.subtract(e.apply(Scalar::constant, -1, -1, 1), counts);
    return e.apply(Scalar::maximum, e.apply(Scalar::where_nonzero, now, counts, kLowest),
                   e.apply(Scalar::where_nonzero, before, skips, kLowest));
  }

  static ValueId write(ir::Graph& graph, const Optimizer& optimizer, const UpdateTarget& target,
                       ValueId learning_rate, ValueId corrected_rate, ValueId shared_scale,
                       ValueId counts) {
    const OptimizerDescriptor& d = optimizer.descriptor();
    const std::vector<std::string> slots = optimizer.slots();
    ValueId scale = shared_scale;
    if (d.applies_gradient_clipping && d.gradient_clipping_type == GradientClippingType::kByNorm) {
      scale = scale_from_norm(graph, ops::reduce_all(graph, ir::ReduceKind::norm, target.gradient),
                              norm_limit(d));
    }
    UpdateEmitter emitter(slots);
    prepare(emitter, d, scale != ir::kNone, optimizer.decouples_decay());
    optimizer.emit(emitter);

    const bool is_part = target.part.parameter != ir::kNone;
    std::vector<ValueId> operands{is_part ? target.part.parameter : target.parameter,
                                  is_part ? target.part.gradient : target.gradient};
    operands.insert(operands.end(), target.slots.begin(), target.slots.end());
    operands.insert(operands.end(), {learning_rate, corrected_rate, scale, counts});
    auto add_result = [&](int now, int before) {
      emitter.list_.results.push_back(counts == ir::kNone ? now : chosen(emitter, now, before));
    };
    add_result(emitter.new_parameter_, emitter.parameter_);
    for (const std::string& slot : slots) {
      const auto found = emitter.new_slots_.find(slot);
      if (found == emitter.new_slots_.end()) {
        throw InternalError("[optimizer] slot '" + slot + "' was not written");
      }
      add_result(found->second, emitter.slot(slot));
    }
    std::vector<int> kept;
    ir::ScalarList list = ir::without_dead_code(emitter.list_, kept);
    std::vector<ValueId> inputs;
    for (int k : kept) inputs.push_back(operands[static_cast<std::size_t>(k)]);
    const std::vector<ValueId> results =
        ops::elementwise(graph, std::move(list), std::move(inputs));
    if (!is_part) graph.value(results[0]).writes = target.parameter;
    for (std::size_t k = 0; k < target.slots.size(); ++k) {
      graph.value(results[k + 1]).writes = target.slots[k];
    }
    return results[0];
  }
};

std::vector<ValueId> emit_updates(ir::Graph& graph, const Optimizer& optimizer,
                                  const std::vector<UpdateTarget>& targets, ValueId learning_rate,
                                  ValueId corrected_learning_rate, ValueId counts) {
  graph.phase = ir::Phase::update;
  graph.layer = ir::kNone;
  const ValueId scale = global_scale(graph, optimizer.descriptor(), targets);
  std::vector<ValueId> updated;
  for (const UpdateTarget& target : targets) {
    graph.layer = target.layer;
    updated.push_back(UpdateWriter::write(graph, optimizer, target, learning_rate,
                                          corrected_learning_rate, scale, counts));
  }
  graph.layer = ir::kNone;
  return updated;
}

}  // namespace traingraph
