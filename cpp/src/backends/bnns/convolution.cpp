// Convolution and its two gradients by BNNS's layer filters.
//
// A filter learns the address of its weights when it is created and never again, while ours come
// with each run. So a kernel has memory of its own that the filter is created over, and each run
// copies the weights there: a few thousandths of the arithmetic that follows.
#include <algorithm>

#include "backends/bnns/bnns.h"
#include "backends/bnns/list_loop.h"
#include "backends/bnns/small_case.h"

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
        y_(node.outputs[0]),
        epilogue_(graph, node, std::get<ConvolutionAttributes>(node.attributes).epilogue, 2) {}

  std::size_t workspace_bytes() const override { return epilogue_.workspace_bytes(); }

  void run(Pointers pointers) override {
    layer_.take_weights(read(pointers, weights_));
    check(BNNSFilterApplyBatch(layer_.filter.get(), layer_.batch, pointers[x_], layer_.x_stride,
                               pointers[y_], layer_.y_stride),
          "BNNSFilterApplyBatch");
    epilogue_.run(pointers);
  }

 private:
  Layer layer_;
  ir::ValueId x_, weights_, y_;
  Epilogue epilogue_;
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

// --- what is taken -----------------------------------------------------------------------------

// x (2, 4, 7, 6), weights (6, 4 / groups, 3, 2): all three ops of one use of a layer.
bool use_comes_out_right(const ir::Window& window, std::int64_t groups) {
  ConvolutionAttributes attributes;
  attributes.window = window;
  attributes.groups = groups;
  const Shape x = {2, 4, 7, 6};
  const Shape weights = {6, 4 / groups, window.kernel[0], window.kernel[1]};
  const Shape y = {2, 6, positions(window, 0, x[2]), positions(window, 1, x[3])};
  return comes_out_right({Op::convolution, attributes, {x, weights}, {y}}, make<Forward>) &&
         comes_out_right({Op::convolution_gradient_data, attributes, {y, weights}, {x}},
                         make<GradientData>) &&
         comes_out_right({Op::convolution_gradient_weights, attributes, {y, x}, {weights}},
                         make<GradientWeights>);
}

ir::Window small_window() {
  ir::Window window;
  window.kernel[0] = 3;
  window.kernel[1] = window.stride[0] = 2;
  return window;
}

// Each use is tried once, so that what one of them does wrong refuses no other.
bool plain_use() {
  static const bool right = use_comes_out_right(small_window(), 1);
  return right;
}

bool padded_use() {
  static const bool right = [] {
    ir::Window window = small_window();
    window.padding_before[0] = 2;
    window.padding_after[1] = 1;
    return use_comes_out_right(window, 1);
  }();
  return right;
}

bool dilated_use() {
  static const bool right = [] {
    ir::Window window = small_window();
    window.dilation[0] = 2;
    return use_comes_out_right(window, 1);
  }();
  return right;
}

bool grouped_use() {
  static const bool right = use_comes_out_right(small_window(), 2);
  return right;
}

// What BNNS itself does not take it says by creating no filter.
Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (Support s = plain_float32(graph, node); !s.yes) return s;
  if (!Layer(problem_of(graph, node)).filter.exists()) {
    return Support::no("BNNS creates no such convolution");
  }
  const auto& attributes = std::get<ConvolutionAttributes>(node.attributes);
  const ir::Window& window = attributes.window;
  const bool dilates = window.dilation[0] > 1 || window.dilation[1] > 1;
  const auto wrong = [](const char* what) {
    return Support::no(std::string("BNNS: a small convolution ") + what +
                       " does not come out right on this machine");
  };
  if (!plain_use()) return wrong("with other weights at each call");
  if (pads(window) && !padded_use()) return wrong("with padding");
  if (dilates && !dilated_use()) return wrong("with dilation");
  if (attributes.groups > 1 && !grouped_use()) return wrong("with groups");
  return {};
}

}  // namespace

const std::vector<KernelEntry>& convolution_entries() {
  static const std::vector<KernelEntry> entries = {
      {Op::convolution, supports, make<Forward>, nullptr, takes_epilogue},
      {Op::convolution_gradient_data, supports, make<GradientData>},
      {Op::convolution_gradient_weights, supports, make<GradientWeights>}};
  return entries;
}

}  // namespace traingraph::bnns
