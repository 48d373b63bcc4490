// The dropout layer, and the masked value with its seed that other layers emit too.
#include <traingraph/describe.h>
#include <traingraph/errors.h>
#include <traingraph/softmax.h>

#include "ir/number_text.h"
#include "layers/checks.h"
#include "layers/dropped.h"

namespace traingraph {

Dropout::Dropout(float rate, std::uint64_t seed) : Layer("Dropout"), rate_(rate), seed_(seed) {
  if (!(rate >= 0 && rate < 1)) {
    throw InvalidArgument("[Dropout] expected a rate of at least 0 and below 1 but got " +
                          short_text(rate));
  }
}

std::string Dropout::description() const {
  PlainStream text;
  text << "Dropout rate " << rate_;
  return text.str();
}

ir::ValueId dropped(Emitter& e, ir::ValueId x, double rate, std::uint64_t seed) {
  std::vector<ir::ValueId> inputs{x, e.lowering.step(ir::StepInput::counter)};
  if (e.lowering.in_larger_batch && e.graph.type(x).batched) {
    inputs.push_back(e.lowering.step(ir::StepInput::first_row));
  }
  return ops::apply1(e.graph, ir::Op::dropout, ir::DropoutAttributes{rate, seed},
                     std::move(inputs));
}

// x (…) → (…).
void Dropout::emit(Emitter& e) const {
  e.expect_sources(1);
  expect_floating(e);
  if (!e.training() || rate_ == 0) {
    e.result(ops::unary(e.graph, ir::Scalar::identity, e.sources[0]));
    return;
  }
  e.result(dropped(e, e.sources[0], static_cast<double>(rate_), e.seed(seed_)));
}

const ClassDescription& Dropout::class_description() {
  static const ClassDescription description =
      Describing<Dropout, Layer>("MLCDropoutLayer", "Drops elements at random while training.")
          .argument("rate", &Dropout::rate, "The probability of vanishing.")
          .in(kShareBelowOne)
          .argument("seed", &Dropout::seed, "The seed, 0 for none of its own.", 0)
          .made_of<float, std::uint64_t>(
              "Elements vanish with probability rate, the others are divided by 1 - rate; "
              "inference is the identity. Seed 0: from MLCPlatform's seed and the layer's "
              "position. Shapes: any (…) to the same. Gradient: divided and dropped like the "
              "source. "
              "Errors: a rate outside its range, and sources of whole numbers.")
          .sample([](DataType t) {
            return LayerSample{std::make_shared<Dropout>(0.5f), {{{2, 2}, t}}};
          });
  return description;
}

}  // namespace traingraph
