// Softmax, its logarithm and their gradients: MPSMatrix… over rows of memory as it lies, for ops,
// and MPSCNN… over images, which traingraph.mps encodes by name. The second operand of a gradient
// is the forward result.
#include "backends/metal/kernels/entries.h"
#include "backends/metal/kernels/named_kernels.h"
#include "backends/metal/shaders/shader_kernel.h"

namespace traingraph::metal {
namespace {

Support supports_softmax(const ir::Graph& graph, const ir::Node& node) {
  const Support support = supports_float(graph, node);
  if (!support.yes) return support;
  const Shape& shape = graph.type(node.outputs[0]).shape;
  const auto axis = static_cast<std::size_t>(std::get<ir::SoftmaxAttributes>(node.attributes).axis);
  for (std::size_t k = axis + 1; k < shape.size(); ++k) {
    if (shape[k] != 1) return Support::no("mps: rows that are not contiguous");
  }
  return {};
}

// Rows as those of one matrix.
MatrixAt rows_of(const ir::Graph& graph, const ir::Node& node) {
  const Shape& shape = graph.type(node.outputs[0]).shape;
  const std::int64_t extent =
      shape[static_cast<std::size_t>(std::get<ir::SoftmaxAttributes>(node.attributes).axis)];
  return {element_count(shape) / extent, extent};
}

template <class Plain, class Logarithm>
Ref<Plain*> softmax_kernel(const ir::Node& node, Device& device) {
  id<MTLDevice> gpu = device.objects().device.get();
  if (std::get<ir::SoftmaxAttributes>(node.attributes).logarithm) {
    return Ref<Plain*>::own([[Logarithm alloc] initWithDevice:gpu]);
  }
  return Ref<Plain*>::own([[Plain alloc] initWithDevice:gpu]);
}

class Softmax final : public Kernel {
 public:
  Softmax(const ir::Graph& graph, const ir::Node& node, Device& device)
      : x_value_(node.inputs[0]),
        y_value_(node.outputs[0]),
        x_(rows_of(graph, node)),
        y_(x_),
        kernel_(softmax_kernel<MPSMatrixSoftMax, MPSMatrixLogSoftMax>(node, device)) {}

  void encode(Pointers pointers, Encoding& encoding) override {
    [kernel_.get() encodeToCommandBuffer:command_buffer(encoding)
                             inputMatrix:x_.at(encoding, pointers[x_value_])
                            resultMatrix:y_.at(encoding, pointers[y_value_])];
  }

 private:
  ir::ValueId x_value_, y_value_;
  MatrixAt x_, y_;
  Ref<MPSMatrixSoftMax*> kernel_;
};

class SoftmaxGradient final : public Kernel {
 public:
  SoftmaxGradient(const ir::Graph& graph, const ir::Node& node, Device& device)
      : dy_value_(node.inputs[0]),
        y_value_(node.inputs[1]),
        dx_value_(node.outputs[0]),
        dy_(rows_of(graph, node)),
        y_(dy_),
        dx_(dy_),
        kernel_(
            softmax_kernel<MPSMatrixSoftMaxGradient, MPSMatrixLogSoftMaxGradient>(node, device)) {}

  void encode(Pointers pointers, Encoding& encoding) override {
    [kernel_.get() encodeToCommandBuffer:command_buffer(encoding)
                          gradientMatrix:dy_.at(encoding, pointers[dy_value_])
                     forwardOutputMatrix:y_.at(encoding, pointers[y_value_])
                            resultMatrix:dx_.at(encoding, pointers[dx_value_])];
  }

 private:
  ir::ValueId dy_value_, y_value_, dx_value_;
  MatrixAt dy_, y_, dx_;
  Ref<MPSMatrixSoftMaxGradient*> kernel_;
};

}  // namespace

std::vector<KernelEntry> mps_softmax_entries() {
  return {{ir::Op::softmax, supports_softmax, make<Softmax>},
          {ir::Op::softmax_gradient, supports_softmax, make<SoftmaxGradient>}};
}

std::vector<NamedKernel> named_softmax() {
  using Plain = MPSCNNSoftMax;
  using PlainGradient = MPSCNNSoftMaxGradient;
  using Log = MPSCNNLogSoftMax;
  using LogGradient = MPSCNNLogSoftMaxGradient;
  return {
      forward_row<Plain, plain<Plain>>(),
      gradient_row<PlainGradient, plain<Plain>, plain<PlainGradient>>(),
      forward_row<Log, plain<Log>>(),
      gradient_row<LogGradient, plain<Log>, plain<LogGradient>>(),
  };
}

}  // namespace traingraph::metal
