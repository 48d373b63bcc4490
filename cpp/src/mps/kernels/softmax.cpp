// CNNSoftMax, plain or logarithmic, over channels, and its gradient, which reads the forward result
// in place of the source.
#include <traingraph/mps/softmax.h>

#include "mps/recording/emission.h"
#include "mps/recording/image_parts.h"

namespace traingraph::mps {
namespace {

class SoftmaxOperation final : public Operation {
 public:
  SoftmaxOperation(const std::string& subject_in, bool logarithm)
      : Operation(subject_in), attributes_{logarithm, 1} {}
  void emit(Emission& e) const override {
    e.set(0, ops::apply1(e.graph, ir::Op::softmax, attributes_, {e.inputs[0]}));
  }

 private:
  ir::SoftmaxAttributes attributes_;
};

// dy, y → dx: the gradient op reads the result, as this kernel does.
class SoftmaxGradientOperation final : public Operation {
 public:
  SoftmaxGradientOperation(const std::string& subject_in, bool logarithm)
      : Operation(subject_in), attributes_{logarithm, 1} {}
  void emit(Emission& e) const override {
    e.set(0,
          ops::apply1(e.graph, ir::Op::softmax_gradient, attributes_, {e.inputs[0], e.inputs[1]}));
  }

 private:
  ir::SoftmaxAttributes attributes_;
};

}  // namespace

OperationPtr CNNSoftMax::make_operation() const {
  return std::make_shared<SoftmaxOperation>(description(), logarithm_);
}
OperationPtr CNNSoftMaxGradient::make_operation() const {
  return std::make_shared<SoftmaxGradientOperation>(description(), logarithm_);
}

void CNNSoftMaxGradient::configure_parts(const GradientState& state) {
  CNNGradientKernel::configure_parts(state);
  const ImageParts& forward = state.parts();
  window_.offset = forward.origin;
  if (!forward.destination) return;
  secondary_channels_ = {forward.channel, seen(state.source(), forward.source).feature_channels};
}

// Both images as they lie in one of the source's size.
GradientParts CNNSoftMaxGradient::parts(const ImageDescriptor& gradient,
                                        const ImageDescriptor& result,
                                        const GradientState& state) const {
  GradientParts parts = {incoming(gradient, state),
                         channels_of(seen(result, secondary_channels_), secondary_channels_),
                         state.source(),
                         {}};
  parts.result.feature_channels = parts.secondary.extent[0];
  const ImageParts& forward = state.parts();
  if (forward.clip_width == 0) return parts;
  parts.first = state.window().offset;
  put(parts.gradient, state.source().height, state.source().width, parts.first);
  parts.secondary.first[1] = window_.offset.y;
  parts.secondary.first[2] = window_.offset.x;
  parts.secondary.extent = {parts.secondary.extent[0], forward.clip_height, forward.clip_width};
  check_inside(parts.secondary, result, "source images");
  parts.secondary.size = parts.gradient.size;
  parts.secondary.place = parts.gradient.place;
  return parts;
}

ImageDescriptor CNNSoftMaxGradient::secondary_of(const GradientState& state) const {
  if (!state.parts().destination) return state.source();
  ImageDescriptor result = *state.parts().destination;
  if (state.parts().images.count == 0) result.number_of_images = state.source().number_of_images;
  return result;
}

}  // namespace traingraph::mps
