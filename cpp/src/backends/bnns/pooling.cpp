// Pooling and its gradient by BNNS's layer filters.
//
// Maxima are left to the portable loops. BNNS documents padding as zeros, while ours is no
// element; it does not document what its indices count, while ours are places within a window; and
// it does not say that NaN wins, which it does here.
#include <algorithm>

#include "backends/bnns/accelerate.h"
#include "backends/bnns/bnns.h"

namespace traingraph::bnns {
namespace {

using ir::Op;
using ir::PoolingAttributes;
using ir::PoolingKind;

BNNSPoolingFunction function_of(const PoolingAttributes& a) {
  if (a.kind == PoolingKind::l2_norm) return BNNSPoolingFunctionL2Norm;
  return a.count_includes_padding ? BNNSPoolingFunctionAverageCountIncludePadding
                                  : BNNSPoolingFunctionAverageCountExcludePadding;
}

// x (N, C, H, W), y (N, C, P, Q)
struct Layer {
  BNNSNDArrayDescriptor x, y;
  std::size_t batch, x_stride, y_stride;
  Filter filter;

  Layer(const Shape& x_shape, const Shape& y_shape, const PoolingAttributes& a)
      : x(image(x_shape)),
        y(image(y_shape)),
        batch(extent(x_shape[0])),
        x_stride(elements(x_shape) / batch),
        y_stride(elements(y_shape) / batch),
        filter(create(x_shape, a)) {}

 private:
  BNNSFilter create(const Shape& x_shape, const PoolingAttributes& a) const {
    BNNSLayerParametersPooling parameters{};
    parameters.i_desc = x;
    parameters.o_desc = y;
    parameters.bias = vector(extent(x_shape[1]), nullptr);
    parameters.activation.function = BNNSActivationFunctionIdentity;
    parameters.pooling_function = function_of(a);
    parameters.k_width = extent(a.window.kernel[1]);
    parameters.k_height = extent(a.window.kernel[0]);
    set_window(parameters, a.window);
    const BNNSFilterParameters filter_parameters = client_pointers();
    return BNNSFilterCreateLayerPooling(&parameters, &filter_parameters);
  }
};

Layer layer_of(const ir::Graph& graph, const ir::Node& node) {
  const Shape& first = graph.type(node.inputs[0]).shape;
  const Shape& result = graph.type(node.outputs[0]).shape;
  const auto& attributes = std::get<PoolingAttributes>(node.attributes);
  if (node.op == Op::pooling) return {first, result, attributes};
  return {result, first, attributes};
}

class Pooling final : public Kernel {
 public:
  Pooling(const ir::Graph& graph, const ir::Node& node)
      : layer_(layer_of(graph, node)), x_(node.inputs[0]), y_(node.outputs[0]) {}

  void run(Pointers pointers) override {
    check(BNNSPoolingFilterApplyBatch(layer_.filter.get(), layer_.batch, pointers[x_],
                                      layer_.x_stride, pointers[y_], layer_.y_stride, nullptr, 0),
          "BNNSPoolingFilterApplyBatch");
  }

 private:
  Layer layer_;
  ir::ValueId x_, y_;
};

// average: dy; L2: dy, x, y. The result is cleared first, as with convolutions.
class Gradient final : public Kernel {
 public:
  Gradient(const ir::Graph& graph, const ir::Node& node)
      : layer_(layer_of(graph, node)), inputs_(node.inputs), dx_(node.outputs[0]) {}

  void run(Pointers pointers) override {
    const bool reads_source = inputs_.size() == 3;
    const std::byte* x = reads_source ? pointers[inputs_[1]] : nullptr;
    const std::byte* y = reads_source ? pointers[inputs_[2]] : nullptr;
    layer_.x.data = pointers[dx_];
    layer_.y.data = pointers[inputs_[0]];
    std::fill_n(write(pointers, dx_), layer_.batch * layer_.x_stride, 0.0f);
    check(BNNSPoolingFilterApplyBackwardBatch(layer_.filter.get(), layer_.batch, x, layer_.x_stride,
                                              &layer_.x, layer_.x_stride, y, layer_.y_stride,
                                              &layer_.y, layer_.y_stride, nullptr, nullptr, 0),
          "BNNSPoolingFilterApplyBackwardBatch");
  }

 private:
  Layer layer_;
  std::vector<ir::ValueId> inputs_;
  ir::ValueId dx_;
};

template <class K>
std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<K>(graph, node);
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const auto& attributes = std::get<PoolingAttributes>(node.attributes);
  if (attributes.kind == PoolingKind::max) {
    return Support::no("BNNS: maxima, whose padding, indices and NaN are not ours");
  }
  if (Support s = plain_float32(graph, node); !s.yes) return s;
  if (!layer_of(graph, node).filter.exists()) return Support::no("BNNS creates no such pooling");
  return {};
}

}  // namespace

const std::vector<KernelEntry>& pooling_entries() {
  static const std::vector<KernelEntry> entries = {
      {Op::pooling, supports, make<Pooling>}, {Op::pooling_gradient, supports, make<Gradient>}};
  return entries;
}

}  // namespace traingraph::bnns
