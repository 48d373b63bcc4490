// MPSNNOptimizer… over vectors, which are rows of memory here.
#include <functional>
#include <limits>

#include "backends/metal/kernels/entries.h"
#include "backends/metal/kernels/named_kernels.h"
#include "backends/metal/shaders/shader_kernel.h"

namespace traingraph::metal {
namespace {

// What all of them are told, by their archive.
MPSNNOptimizerDescriptor* descriptor_of(const ir::Node& node) {
  const auto number = [&node](const char* name) {
    return float_of(node, std::string("optimizer_descriptor.") + name);
  };
  return [MPSNNOptimizerDescriptor
      optimizerDescriptorWithLearningRate:number("learning_rate")
                          gradientRescale:number("gradient_rescale")
                    applyGradientClipping:number("apply_gradient_clipping") != 0
                          gradientClipMax:number("gradient_clip_max")
                          gradientClipMin:number("gradient_clip_min")
                       regularizationType:static_cast<MPSNNRegularizationType>(
                                              number("regularization_type"))
                      regularizationScale:number("regularization_scale")];
}

struct Operands {
  MPSVector* gradient;
  MPSVector* values;
  const std::vector<MPSVector*>& own;
  MPSVector* result;
};
// The kernel of an optimizer at this rate.
using EncodeUpdate =
    std::function<void(float rate, const Operands& o, id<MTLCommandBuffer> buffer)>;

// gradient, values, own vectors, learning rate, corrected learning rate → values, own vectors.
// Apple's kernels change their own vectors in place, so these are copied to their results first.
class Update final : public Kernel {
 public:
  Update(const ir::Graph& graph, const ir::Node& node, Device& device, bool corrected,
         EncodeUpdate encode)
      : encode_(std::move(encode)),
        in_(node.inputs),
        out_(node.outputs),
        rate_(in_[in_.size() - (corrected ? 1 : 2)]),
        elements_(graph.type(node.outputs[0]).elements()),
        copy_(device.shader("copy_runs")),
        vectors_(out_.size() + 2, VectorAt(elements_)) {}

  void encode(Pointers pointers, Encoding& encoding) override {
    for (std::size_t k = 1; k < out_.size(); ++k) {
      const std::byte *from = pointers[in_[k + 1]], *to = pointers[out_[k]];
      if (from != to) copy_row(encoding, copy_, from, to, elements_);
    }
    const auto vector = [&](std::size_t k, ir::ValueId value) {
      return vectors_[k].at(encoding, pointers[value]);
    };
    own_.clear();
    for (std::size_t k = 1; k < out_.size(); ++k) own_.push_back(vector(k + 2, out_[k]));
    // Apple's kernels take it from the host, and encoding copies what a kernel is told to the
    // command buffer (https://developer.apple.com/documentation/metalperformanceshaders/mpskernel),
    // so each run in flight has a rate of its own.
    float rate = 0;
    encoding.device().read_written(&rate, pointers[rate_], sizeof rate);
    encode_(rate, {vector(0, in_[0]), vector(1, in_[1]), own_, vector(2, out_[0])},
            command_buffer(encoding));
  }

 private:
  const EncodeUpdate encode_;
  std::vector<ir::ValueId> in_, out_;
  ir::ValueId rate_;  // written by the host alone
  std::int64_t elements_;
  const Shader& copy_;
  std::vector<VectorAt> vectors_;
  std::vector<MPSVector*> own_;
};

std::unique_ptr<Kernel> make_sgd(const ir::Graph& graph, const ir::Node& node, Device& device) {
  const Pool pool;
  const auto kernel = Ref<MPSNNOptimizerStochasticGradientDescent*>::own(
      [[MPSNNOptimizerStochasticGradientDescent alloc]
               initWithDevice:device.objects().device.get()
                momentumScale:float_of(node, "momentum_scale")
          useNesterovMomentum:number_of(node, "use_nesterov_momentum") != 0
          optimizerDescriptor:descriptor_of(node)]);
  return std::make_unique<Update>(
      graph, node, device, false,
      [kernel](float rate, const Operands& o, id<MTLCommandBuffer> buffer) {
        [kernel.get() setLearningRate:rate];
        [kernel.get() encodeToCommandBuffer:buffer
                        inputGradientVector:o.gradient
                          inputValuesVector:o.values
                        inputMomentumVector:o.own.empty() ? nil : o.own[0]
                         resultValuesVector:o.result];
      });
}

std::unique_ptr<Kernel> make_rms_prop(const ir::Graph& graph, const ir::Node& node,
                                      Device& device) {
  const Pool pool;
  const auto kernel = Ref<MPSNNOptimizerRMSProp*>::own([[MPSNNOptimizerRMSProp alloc]
           initWithDevice:device.objects().device.get()
                    decay:float_of(node, "decay")
                  epsilon:float_of(node, "epsilon")
      optimizerDescriptor:descriptor_of(node)]);
  return std::make_unique<Update>(
      graph, node, device, false,
      [kernel](float rate, const Operands& o, id<MTLCommandBuffer> buffer) {
        [kernel.get() setLearningRate:rate];
        [kernel.get() encodeToCommandBuffer:buffer
                        inputGradientVector:o.gradient
                          inputValuesVector:o.values
                    inputSumOfSquaresVector:o.own[0]
                         resultValuesVector:o.result];
      });
}

// The recording knows the time step, and brings the rate with both corrections, of betas that are
// float32. So Apple's kernel has these betas, and is at a time at which its own corrections are 1.
std::unique_ptr<Kernel> make_adam(const ir::Graph& graph, const ir::Node& node, Device& device) {
  constexpr NSUInteger kLate = NSUInteger{1} << 30;
  const Pool pool;
  const auto kernel = Ref<MPSNNOptimizerAdam*>::own([[MPSNNOptimizerAdam alloc]
           initWithDevice:device.objects().device.get()
                    beta1:float_of(node, "beta1")
                    beta2:float_of(node, "beta2")
                  epsilon:float_of(node, "epsilon")
                 timeStep:kLate
      optimizerDescriptor:descriptor_of(node)]);
  return std::make_unique<Update>(
      graph, node, device, true,
      [kernel](float rate, const Operands& o, id<MTLCommandBuffer> buffer) {
        [kernel.get() setLearningRate:rate];
        [kernel.get() encodeToCommandBuffer:buffer
                        inputGradientVector:o.gradient
                          inputValuesVector:o.values
                        inputMomentumVector:o.own[0]
                        inputVelocityVector:o.own[1]
                         resultValuesVector:o.result];
      });
}

// An optimizer with so many vectors of its own at the most.
template <std::size_t kMost>
std::string refuses(const ir::Graph& graph, const ir::Node& node) {
  if (node.outputs.size() > 1 + kMost) return "the largest second moments so far";
  if (number_of(node, "optimizer_descriptor.gradient_clipping_type") != 0) {
    return "clipping by a norm, which is an addition";
  }
  for (const auto* operands : {&node.inputs, &node.outputs}) {
    for (ir::ValueId id : *operands) {
      const ir::Type& type = graph.type(id);
      if (type.data_type != DataType::kFloat32) return "vectors of another type than float32";
      if (type.elements() > std::numeric_limits<int>::max()) return "2^31 elements or more";
    }
  }
  return {};
}

}  // namespace

std::vector<NamedKernel> named_optimizers() {
  return {
      {"MPSNNOptimizerStochasticGradientDescent", refuses<1>, make_sgd},
      {"MPSNNOptimizerRMSProp", refuses<1>, make_rms_prop},
      {"MPSNNOptimizerAdam", refuses<2>, make_adam},
  };
}

}  // namespace traingraph::metal
