// Adam's update by BNNSOptimizerStep, where an update is exactly Adam: no clipping, no rescaling,
// no regularization. Other updates are lists of scalar functions as any (elementwise.cpp).
//
// BNNS corrects both moments by the time step; here the learning rate comes corrected. At a time
// step beyond all bounds BNNS's corrections are 1, and what it subtracts is ours:
// rate m / (sqrt(v) + epsilon).
#include <algorithm>
#include <cmath>
#include <iterator>

#include "backends/bnns/accelerate.h"
#include "backends/bnns/bnns.h"
#include "backends/bnns/small_case.h"
#include "ir/frequent_lists.h"

namespace traingraph::bnns {
namespace {

// Inputs: parameter, gradient, both moments, corrected rate. Results: parameter, moments.
constexpr std::size_t kArrays = 4;
constexpr float kNoCorrection = 1e9f;

bool is_adam(const ir::ScalarList& list) {
  using Adam = ir::frequent::adam;
  const auto same_step = [](const ir::FrequentStep& step, const ir::Instruction& code) {
    return step.function == code.function && step.x == code.x && step.y == code.y;
  };
  if (list.inputs != static_cast<int>(std::size(Adam::kinds)) - 1 ||
      !std::equal(std::begin(Adam::steps), std::end(Adam::steps), list.code.begin(),
                  list.code.end(), same_step) ||
      !std::equal(std::begin(Adam::results), std::end(Adam::results), list.results.begin(),
                  list.results.end())) {
    return false;
  }
  // Immediates: both betas with their complements, and epsilon added to the plain root.
  const auto averages = [](const ir::Instruction& blend) {
    return blend.p >= 0 && blend.p < 1 && std::fabs(1 - blend.p - blend.q) < 1e-12;
  };
  return averages(list.code[0]) && averages(list.code[2]) && list.code[4].p == 1;
}

class AdamStep final : public Kernel {
 public:
  AdamStep(const ir::Graph& graph, const ir::Node& node, const ir::ScalarList& list)
      : inputs_(node.inputs),
        outputs_(node.outputs),
        count_(elements(graph.type(node.outputs[0]).shape)),
        workspace_(workspace_of(graph, node)) {
    fields_.beta1 = static_cast<float>(list.code[0].p);
    fields_.beta2 = static_cast<float>(list.code[2].p);
    fields_.epsilon = static_cast<float>(list.code[4].q);
    fields_.time_step = kNoCorrection;
    fields_.gradient_scale = 1;
    fields_.regularization_func = BNNSOptimizerRegularizationNone;
  }

  std::size_t workspace_bytes() const override { return kArrays * kTile * sizeof(float); }

  // BNNS updates in place. Mostly results have the bytes of their operands; where one has those of
  // another operand, tiles of all four go through the workspace.
  void run(Pointers pointers) override {
    fields_.learning_rate = *read(pointers, inputs_[kArrays]);
    if (apart(pointers)) {
      for (std::size_t r = 0; r < std::size(kResults); ++r) {
        const float* from = read(pointers, inputs_[kResults[r]]);
        float* to = write(pointers, outputs_[r]);
        if (from != to) std::copy_n(from, count_, to);
      }
      step(write(pointers, outputs_[0]), write(pointers, inputs_[1]), write(pointers, outputs_[1]),
           write(pointers, outputs_[2]), count_);
      return;
    }
    float* tiles = reinterpret_cast<float*>(pointers[workspace_]);
    for (std::size_t begin = 0; begin < count_; begin += kTile) {
      const std::size_t count = std::min(kTile, count_ - begin);
      for (std::size_t i = 0; i < kArrays; ++i) {
        std::copy_n(read(pointers, inputs_[i]) + begin, count, tiles + i * kTile);
      }
      step(tiles, tiles + kTile, tiles + 2 * kTile, tiles + 3 * kTile, count);
      for (std::size_t r = 0; r < std::size(kResults); ++r) {
        std::copy_n(tiles + kResults[r] * kTile, count, write(pointers, outputs_[r]) + begin);
      }
    }
  }

 private:
  static constexpr std::size_t kTile = 1024;
  static constexpr std::size_t kResults[] = {0, 2, 3};  // the operand that each one replaces

  bool apart(Pointers pointers) const {
    for (std::size_t r = 0; r < std::size(kResults); ++r) {
      for (std::size_t i = 0; i < kArrays; ++i) {
        if (i != kResults[r] && pointers[inputs_[i]] == pointers[outputs_[r]]) return false;
      }
    }
    return true;
  }

  void step(float* parameter, float* gradient, float* first, float* second, std::size_t count) {
    BNNSNDArrayDescriptor p = vector(count, parameter), g = vector(count, gradient);
    BNNSNDArrayDescriptor m = vector(count, first), v = vector(count, second);
    BNNSNDArrayDescriptor* parameters[] = {&p};
    const BNNSNDArrayDescriptor* gradients[] = {&g};
    BNNSNDArrayDescriptor* accumulators[] = {&m, &v};
    check(BNNSOptimizerStep(BNNSOptimizerFunctionAdam, &fields_, 1, parameters, gradients,
                            accumulators, nullptr),
          "BNNSOptimizerStep");
  }

  std::vector<ir::ValueId> inputs_, outputs_;
  std::size_t count_;
  std::size_t workspace_;
  BNNSOptimizerAdamFields fields_{};
};

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<AdamStep>(graph, node,
                                    std::get<ir::ElementwiseAttributes>(node.attributes).list);
}

// Tried once.
bool small_step_comes_out_right() {
  using Adam = ir::frequent::adam;
  ir::ElementwiseAttributes attributes;
  ir::ScalarList& list = attributes.list;
  list.inputs = kArrays + 1;
  for (const ir::FrequentStep& step : Adam::steps) list.add(step.function, step.x, step.y);
  list.results.assign(std::begin(Adam::results), std::end(Adam::results));
  list.code[0].p = list.code[0].q = 0.5;
  list.code[2].p = 0.75;
  list.code[2].q = 0.25;
  list.code[4].p = 1;
  list.code[4].q = 0.125;
  const Shape shape = {5};
  return comes_out_right(
      {ir::Op::elementwise, attributes, {shape, shape, shape, shape, {1}}, {shape, shape, shape}},
      make);
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (!is_adam(std::get<ir::ElementwiseAttributes>(node.attributes).list)) {
    return Support::no("BNNS: a list that is not Adam's");
  }
  const Shape& shape = graph.type(node.outputs[0]).shape;
  for (std::size_t i = 0; i < kArrays; ++i) {
    if (graph.type(node.inputs[i]).shape != shape) return Support::no("BNNS: shapes that differ");
  }
  if (graph.type(node.inputs[kArrays]).elements() != 1) {
    return Support::no("BNNS: more than one learning rate");
  }
  if (Support s = plain_float32(graph, node); !s.yes) return s;
  static const bool right = small_step_comes_out_right();
  return right ? Support{} : Support::no("BNNS: Adam's step does not come out right here");
}

}  // namespace

const std::vector<KernelEntry>& adam_entries() {
  static const std::vector<KernelEntry> entries = {{ir::Op::elementwise, supports, make}};
  return entries;
}

}  // namespace traingraph::bnns
