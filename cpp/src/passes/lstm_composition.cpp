// An LSTM as one product and some scalar lists per step.
#include <limits>
#include <numeric>
#include <utility>

#include "passes/compositions.h"

namespace traingraph::passes {
namespace {

using ir::kNone;
using ir::LstmAttributes;
using ir::LstmOperands;
using ir::Scalar;
using ir::Type;
using ir::ValueId;

// Beyond it a graph of so many ops takes longer to compile than to be rewritten by its user.
constexpr std::int64_t kMostSteps = 256;

enum Gate { kInput, kForget, kCandidate, kOutput, kCellResult };

// What both directions share: steps of sequences, states (N, H), functions of the gates.
class Steps {
 public:
  Steps(ir::Graph& graph, const ir::Node& node, const LstmOperands& operands, int gates)
      : graph_(graph),
        node_(node),
        a_(std::get<LstmAttributes>(node.attributes)),
        o_(operands),
        type_(graph.type(operand(gates))),
        sequences_(type_.shape[a_.time_first ? 1 : 0]),
        steps_(type_.shape[time_axis()]),
        hidden_(type_.shape[2] / 4) {
    if (a_.has_lengths) read_lengths();
  }

 protected:
  ValueId operand(int i) const { return node_.inputs[static_cast<std::size_t>(i)]; }
  std::size_t time_axis() const { return a_.time_first ? 0 : 1; }
  std::int64_t step(std::int64_t k) const { return a_.reverse ? steps_ - 1 - k : k; }

  ValueId binary(Scalar function, ValueId x, ValueId y, double p = 0) {
    return ops::binary(graph_, function, x, y, p);
  }
  ValueId product(ValueId x, ValueId y) { return binary(Scalar::multiply, x, y); }
  ValueId sum(ValueId x, ValueId y) { return binary(Scalar::add, x, y); }

  ValueId zeros() {
    return ops::filled(graph_, {type_.data_type, {sequences_, hidden_}, false}, 0);
  }
  ValueId part(ValueId x, int axis, std::int64_t first, std::int64_t count) {
    return ops::apply1(graph_, ir::Op::slice, ir::SliceAttributes{axis, first, count}, {x});
  }
  // Step t of (N, T, width), or (T, N, width), as (N, width).
  ValueId at_step(ValueId x, std::int64_t t) {
    const std::int64_t width = graph_.type(x).shape[2];
    return ops::reshape(graph_, part(x, static_cast<int>(time_axis()), t, 1), {sequences_, width});
  }
  ValueId gate(ValueId gates, int k) { return part(gates, 1, k * hidden_, hidden_); }
  // (1, H)
  ValueId peephole(int k) { return part(operand(o_.peepholes), 0, k, 1); }
  ValueId joined(std::vector<ValueId> parts, int axis) {
    if (parts.size() == 1) return parts[0];
    return ops::apply1(graph_, ir::Op::concatenate, ir::AxisAttributes{axis}, std::move(parts));
  }
  // What each step left, (N, width) by t, as (N, T, width) or (T, N, width).
  ValueId stacked(std::vector<ValueId> parts) {
    for (ValueId& one : parts) {
      Shape shape = {sequences_, 1, graph_.type(one).shape[1]};
      if (a_.time_first) std::swap(shape[0], shape[1]);
      one = ops::reshape(graph_, one, std::move(shape));
    }
    return joined(std::move(parts), static_cast<int>(time_axis()));
  }

  // Whether kept gates are values, and no arguments of the functions.
  bool usual() const { return a_.activations.empty(); }
  ValueId value(int k, ValueId x) {
    if (!usual()) {
      return ops::elementwise(graph_, a_.activations[static_cast<std::size_t>(k)], {x})[0];
    }
    if (is_tanh(k)) return ops::unary(graph_, Scalar::tanh, x, 1, 1);
    return ops::unary(graph_, Scalar::sigmoid, x);
  }
  ValueId slope(int k, ValueId x, ValueId y, ValueId dy) {
    if (!usual()) {
      return ops::elementwise(graph_, a_.derivatives[static_cast<std::size_t>(k)], {x, y, dy})[0];
    }
    if (!is_tanh(k)) return binary(Scalar::sigmoid_gradient, dy, y);
    return ops::binary(graph_, Scalar::tanh_gradient, dy, y, 1, 1);
  }

  // (N, 1): 1 where the sequence has this step, else 0; kNone where all have.
  ValueId inside(std::int64_t t) {
    if (lengths_ == kNone) return kNone;
    const ValueId more =
        ops::unary(graph_, Scalar::affine, lengths_, 1, -static_cast<double>(t + 1));
    return ops::unary(graph_, Scalar::clip, more, 0, 1);
  }
  ValueId zero_outside(ValueId x, ValueId inside) {
    return inside == kNone ? x : binary(Scalar::where_nonzero, x, inside, 0);
  }
  // x inside, else y. The one that is not taken is -0, which adds nothing to any number.
  ValueId chosen(ValueId inside, ValueId x, ValueId y) {
    if (inside == kNone) return x;
    const ValueId outside = ops::unary(graph_, Scalar::affine, inside, -1, 1);
    return sum(binary(Scalar::where_nonzero, x, inside, -0.0),
               binary(Scalar::where_nonzero, y, outside, -0.0));
  }
  // NaN where lengths make no sense.
  ValueId result(ValueId x) {
    if (make_sense_ == kNone) return x;
    return binary(Scalar::where_nonzero, x, make_sense_, std::numeric_limits<double>::quiet_NaN());
  }

  ir::Graph& graph_;
  const ir::Node& node_;
  const LstmAttributes& a_;
  const LstmOperands& o_;
  const Type type_;  // of all gates
  const std::int64_t sequences_, steps_, hidden_;

 private:
  static bool is_tanh(int k) { return k == kCandidate || k == kCellResult; }

  // Numbers 1 more than the lengths are picked, 0 for a length outside.
  void read_lengths() {
    std::vector<double> numbers(static_cast<std::size_t>(steps_) + 1);
    std::iota(numbers.begin(), numbers.end(), 1);
    const Type counted{type_.data_type, {steps_ + 1}, false};
    const ValueId table = ops::constant(graph_, counted, std::move(numbers));
    const ValueId picked =
        ops::apply1(graph_, ir::Op::gather, ir::AxisAttributes{0}, {table, operand(o_.lengths)});
    lengths_ = ops::reshape(graph_, picked, {sequences_, 1});
    std::vector<ValueId> wrong = {ops::unary(
        graph_, Scalar::clip, ops::unary(graph_, Scalar::affine, lengths_, -1, 1), 0, 1)};
    if (sequences_ > 1) {
      const ValueId risen = binary(Scalar::subtract, part(lengths_, 0, 1, sequences_ - 1),
                                   part(lengths_, 0, 0, sequences_ - 1));
      wrong.push_back(ops::unary(graph_, Scalar::clip, risen, 0, 1));
    }
    const ValueId count =
        ops::reduce(graph_, ir::ReduceKind::sum, joined(std::move(wrong), 0), {0, 1});
    make_sense_ = marks_of_zero(graph_, count);
  }

  ValueId lengths_ = kNone;     // (N, 1)
  ValueId make_sense_ = kNone;  // (1, 1)
};

class Forward : private Steps {
 public:
  Forward(ir::Graph& graph, const ir::Node& node, const LstmOperands& o)
      : Steps(graph, node, o, 0) {}

  std::vector<ValueId> results() {
    const auto count = static_cast<std::size_t>(steps_);
    // y, gates, h and c as found, c as left: by step.
    std::vector<std::vector<ValueId>> kept(5, std::vector<ValueId>(count));
    ValueId h = o_.hidden < 0 ? kNone : operand(o_.hidden);
    ValueId c = o_.cell < 0 ? zeros() : operand(o_.cell);
    for (std::int64_t k = 0; k < steps_; ++k) {
      const std::int64_t t = step(k);
      const ValueId here = inside(t);
      ValueId sums = at_step(operand(0), t);
      if (h == kNone) {
        h = zeros();
      } else {
        sums = sum(sums, ops::matmul(graph_, h, operand(o_.weights), false, true));
      }
      const Step moved = step_of(sums, c);
      const auto keep = [&](std::size_t which, ValueId x) {
        kept[which][static_cast<std::size_t>(t)] = zero_outside(x, here);
      };
      keep(0, moved.y);
      keep(1, moved.kept);
      keep(2, h);
      keep(3, c);
      keep(4, moved.c);
      h = chosen(here, moved.y, h);
      c = chosen(here, moved.c, c);
    }
    std::vector<ValueId> results = {result(stacked(kept[0])), result(h), result(c)};
    for (std::size_t which = 1; results.size() < node_.outputs.size(); ++which) {
      results.push_back(result(stacked(kept[which])));
    }
    return results;
  }

 private:
  struct Step {
    ValueId y, c, kept;
  };

  Step step_of(ValueId gates, ValueId c) {
    ValueId sums[4], values[4];
    for (int k = 0; k < 4; ++k) sums[k] = gate(gates, k);
    if (a_.has_peepholes) {
      sums[kInput] = sum(sums[kInput], product(peephole(0), c));
      sums[kForget] = sum(sums[kForget], product(peephole(1), c));
    }
    for (int k : {kInput, kForget, kCandidate}) values[k] = value(k, sums[k]);
    const ValueId moved =
        sum(product(values[kForget], c), product(values[kInput], values[kCandidate]));
    if (a_.has_peepholes) sums[kOutput] = sum(sums[kOutput], product(peephole(2), moved));
    values[kOutput] = value(kOutput, sums[kOutput]);
    const ValueId* const kept = usual() ? values : sums;
    return {product(values[kOutput], value(kCellResult, moved)), moved,
            joined({kept, kept + 4}, 1)};
  }
};

class Backward : private Steps {
 public:
  Backward(ir::Graph& graph, const ir::Node& node, const LstmOperands& o)
      : Steps(graph, node, o, o.gates) {}

  std::vector<ValueId> results() {
    std::vector<ValueId> gates(static_cast<std::size_t>(steps_));
    ValueId dh = o_.hidden_gradient < 0 ? zeros() : operand(o_.hidden_gradient);
    ValueId dc = o_.cell_gradient < 0 ? zeros() : operand(o_.cell_gradient);
    for (std::int64_t k = steps_; k-- > 0;) {
      const std::int64_t t = step(k);
      const ValueId here = inside(t);
      const ValueId dy = o_.all_gradient < 0 ? dh : sum(dh, at_step(operand(o_.all_gradient), t));
      const auto [slopes, found] = slopes_of(t, dy, dc);
      gates[static_cast<std::size_t>(t)] = zero_outside(slopes, here);
      dh = chosen(here, ops::matmul(graph_, slopes, operand(o_.weights), false, false), dh);
      dc = chosen(here, found, dc);
    }
    return {result(stacked(std::move(gates))), result(dh), result(dc)};
  }

 private:
  // The gradients of the gates' arguments (N, 4H), and of c as the step found it.
  std::pair<ValueId, ValueId> slopes_of(std::int64_t t, ValueId dy, ValueId dc) {
    const ValueId kept = at_step(operand(o_.gates), t);
    const ValueId c = at_step(operand(o_.found_cells), t);
    ValueId sums[4], values[4], slopes[4];
    for (int k = 0; k < 4; ++k) {
      sums[k] = gate(kept, k);
      values[k] = usual() ? sums[k] : value(k, sums[k]);
    }
    const auto slope_of = [&](int k, ValueId gradient) {
      slopes[k] = slope(k, sums[k], values[k], gradient);
    };
    const ValueId moved =
        sum(product(values[kForget], c), product(values[kInput], values[kCandidate]));
    const ValueId after = value(kCellResult, moved);
    slope_of(kOutput, product(dy, after));
    dc = sum(dc, slope(kCellResult, moved, after, product(dy, values[kOutput])));
    if (a_.has_peepholes) dc = sum(dc, product(peephole(2), slopes[kOutput]));
    slope_of(kInput, product(dc, values[kCandidate]));
    slope_of(kForget, product(dc, c));
    slope_of(kCandidate, product(dc, values[kInput]));
    dc = product(dc, values[kForget]);
    if (a_.has_peepholes) {
      dc =
          sum(dc, sum(product(peephole(0), slopes[kInput]), product(peephole(1), slopes[kForget])));
    }
    return {joined({slopes, slopes + 4}, 1), dc};
  }
};

bool is_short(const ir::Graph& graph, const ir::Node& node, std::size_t gates) {
  const bool time_first = std::get<LstmAttributes>(node.attributes).time_first;
  return graph.type(node.inputs[gates]).shape[time_first ? 0 : 1] <= kMostSteps;
}

}  // namespace

std::vector<ValueId> compose_lstm(ir::Graph& graph, const ir::Node& node) {
  if (!is_short(graph, node, 0)) return {};
  const auto o = LstmOperands::of_forward(std::get<LstmAttributes>(node.attributes));
  return Forward(graph, node, o).results();
}

std::vector<ValueId> compose_lstm_gradient(ir::Graph& graph, const ir::Node& node) {
  const auto o = LstmOperands::of_gradient(std::get<LstmAttributes>(node.attributes));
  if (!is_short(graph, node, static_cast<std::size_t>(o.gates))) return {};
  return Backward(graph, node, o).results();
}

}  // namespace traingraph::passes
