// Convolution and its two gradients by BNNS's layer filters.
//
// A filter learns the address of its weights when it is created and never again, while ours come
// with each run. So a kernel has memory of its own that the filter is created over, and each run
// copies the weights there: a few thousandths of the arithmetic that follows.
#include <algorithm>

#include "backends/bnns/accelerate.h"
#include "backends/bnns/bnns.h"

namespace traingraph::bnns {
namespace {

using ir::ConvolutionAttributes;
using ir::Op;

// x (N, C, H, W), weights (O, C / groups, kh, kw), y (N, O, P, Q) of whichever of the three ops.
struct Problem {
  Shape x, weights, y;
  const ConvolutionAttributes& attributes;
};

Problem problem_of(const ir::Graph& graph, const ir::Node& node) {
  const auto& attributes = std::get<ConvolutionAttributes>(node.attributes);
  const Shape& first = graph.type(node.inputs[0]).shape;
  const Shape& second = graph.type(node.inputs[1]).shape;
  const Shape& result = graph.type(node.outputs[0]).shape;
  if (node.op == Op::convolution_gradient_data) return {result, second, first, attributes};
  if (node.op == Op::convolution_gradient_weights) return {second, result, first, attributes};
  return {first, second, result, attributes};
}

struct Layer {
  std::vector<float> weights;  // what the filter reads
  BNNSNDArrayDescriptor x, y;
  std::size_t batch, x_stride, y_stride;
  Filter filter;

  explicit Layer(const Problem& p)
      : weights(elements(p.weights)),
        x(image(p.x)),
        y(image(p.y)),
        batch(extent(p.x[0])),
        x_stride(elements(p.x) / batch),
        y_stride(elements(p.y) / batch),
        filter(create(p)) {}

  void take_weights(const float* from) { std::copy_n(from, weights.size(), weights.data()); }

 private:
  BNNSFilter create(const Problem& p) {
    BNNSLayerParametersConvolution parameters{};
    parameters.i_desc = x;
    parameters.w_desc = convolution_weights(p.weights, weights.data());
    parameters.o_desc = y;
    parameters.bias = vector(extent(p.weights[0]), nullptr);
    parameters.activation.function = BNNSActivationFunctionIdentity;
    parameters.groups = extent(p.attributes.groups);
    set_window(parameters, p.attributes.window);
    const BNNSFilterParameters filter_parameters = client_pointers();
    return BNNSFilterCreateLayerConvolution(&parameters, &filter_parameters);
  }
};

class Forward final : public Kernel {
 public:
  Forward(const ir::Graph& graph, const ir::Node& node)
      : layer_(problem_of(graph, node)),
        x_(node.inputs[0]),
        weights_(node.inputs[1]),
        y_(node.outputs[0]) {}

  void run(Pointers pointers) override {
    layer_.take_weights(read(pointers, weights_));
    check(BNNSFilterApplyBatch(layer_.filter.get(), layer_.batch, pointers[x_], layer_.x_stride,
                               pointers[y_], layer_.y_stride),
          "BNNSFilterApplyBatch");
  }

 private:
  Layer layer_;
  ir::ValueId x_, weights_, y_;
};

// Apple does not say whether a gradient is added to what its memory holds or replaces it. The
// memory is cleared first, so both give the same.
class GradientData final : public Kernel {
 public:
  GradientData(const ir::Graph& graph, const ir::Node& node)
      : layer_(problem_of(graph, node)),
        dy_(node.inputs[0]),
        weights_(node.inputs[1]),
        dx_(node.outputs[0]) {}

  void run(Pointers pointers) override {
    layer_.take_weights(read(pointers, weights_));
    layer_.x.data = pointers[dx_];
    layer_.y.data = pointers[dy_];
    std::fill_n(write(pointers, dx_), layer_.batch * layer_.x_stride, 0.0f);
    check(BNNSFilterApplyBackwardBatch(layer_.filter.get(), layer_.batch, nullptr, layer_.x_stride,
                                       &layer_.x, layer_.x_stride, nullptr, layer_.y_stride,
                                       &layer_.y, layer_.y_stride, nullptr, nullptr),
          "BNNSFilterApplyBackwardBatch");
  }

 private:
  Layer layer_;
  ir::ValueId dy_, weights_, dx_;
};

// Reads no weights: those of the filter stay 0.
class GradientWeights final : public Kernel {
 public:
  GradientWeights(const ir::Graph& graph, const ir::Node& node)
      : layer_(problem_of(graph, node)),
        result_(convolution_weights(graph.type(node.outputs[0]).shape, nullptr)),
        dy_(node.inputs[0]),
        x_(node.inputs[1]),
        dweights_(node.outputs[0]) {}

  void run(Pointers pointers) override {
    layer_.y.data = pointers[dy_];
    result_.data = pointers[dweights_];
    std::fill_n(write(pointers, dweights_), layer_.weights.size(), 0.0f);
    check(BNNSFilterApplyBackwardBatch(layer_.filter.get(), layer_.batch, pointers[x_],
                                       layer_.x_stride, nullptr, layer_.x_stride, nullptr,
                                       layer_.y_stride, &layer_.y, layer_.y_stride, &result_,
                                       nullptr),
          "BNNSFilterApplyBackwardBatch");
  }

 private:
  Layer layer_;
  BNNSNDArrayDescriptor result_;
  ir::ValueId dy_, x_, dweights_;
};

template <class K>
std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<K>(graph, node);
}

// What BNNS itself does not take it says by creating no filter.
Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (Support s = plain_float32(graph, node); !s.yes) return s;
  if (!Layer(problem_of(graph, node)).filter.exists()) {
    return Support::no("BNNS creates no such convolution");
  }
  return {};
}

}  // namespace

const std::vector<KernelEntry>& convolution_entries() {
  static const std::vector<KernelEntry> entries = {
      {Op::convolution, supports, make<Forward>},
      {Op::convolution_gradient_data, supports, make<GradientData>},
      {Op::convolution_gradient_weights, supports, make<GradientWeights>}};
  return entries;
}

}  // namespace traingraph::bnns
