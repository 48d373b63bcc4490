// Matrix products and softmax over rows by Metal Performance Shaders. They work on memory as it
// lies, so nothing is copied.
#include "backends/metal/images.h"
#include "backends/metal/mps_entries.h"
#include "backends/metal/shader_kernel.h"

namespace traingraph::metal {
namespace {

// --- matmul --------------------------------------------------------------------------------------

std::int64_t matrices_of(const Shape& shape) {
  return element_count(Shape(shape.begin(), shape.end() - 2));
}

// a (…, M, K), b (…, K, N) → y (…, M, N): as many matrices of each, or one b for all rows of a.
struct Product {
  std::int64_t rows, columns, inner, matrices;
  bool possible;

  Product(const ir::Graph& graph, const ir::Node& node) {
    const auto& attributes = std::get<ir::MatmulAttributes>(node.attributes);
    const Shape& a = graph.type(node.inputs[0]).shape;
    const Shape& b = graph.type(node.inputs[1]).shape;
    const Shape& y = graph.type(node.outputs[0]).shape;
    rows = y[y.size() - 2];
    columns = y[y.size() - 1];
    inner = a[a.size() - (attributes.transpose_a ? 2 : 1)];
    matrices = matrices_of(y);
    const bool each_a = matrices_of(a) == matrices;
    possible = each_a && matrices_of(b) == matrices;
    if (!possible && each_a && matrices_of(b) == 1 && !attributes.transpose_a) {
      rows *= matrices;
      matrices = 1;
      possible = true;
    }
  }
};

Support supports_matmul(const ir::Graph& graph, const ir::Node& node) {
  const Support support = supports_float(graph, node);
  if (!support.yes) return support;
  if (!Product(graph, node).possible) return Support::no("mps: matrices that are stretched");
  return {};
}

class Matmul final : public Kernel {
 public:
  Matmul(const ir::Graph& graph, const ir::Node& node, Device& device)
      : Matmul(Product(graph, node), std::get<ir::MatmulAttributes>(node.attributes), node,
               device) {}

  void encode(Pointers pointers, Encoding& encoding) override {
    [kernel_.get() encodeToCommandBuffer:command_buffer(encoding)
                              leftMatrix:a_.at(encoding, pointers[a_value_])
                             rightMatrix:b_.at(encoding, pointers[b_value_])
                            resultMatrix:y_.at(encoding, pointers[y_value_])];
  }

 private:
  Matmul(const Product& p, const ir::MatmulAttributes& attributes, const ir::Node& node,
         Device& device)
      : a_value_(node.inputs[0]),
        b_value_(node.inputs[1]),
        y_value_(node.outputs[0]),
        a_(attributes.transpose_a ? p.inner : p.rows, attributes.transpose_a ? p.rows : p.inner,
           p.matrices),
        b_(attributes.transpose_b ? p.columns : p.inner,
           attributes.transpose_b ? p.inner : p.columns, p.matrices),
        y_(p.rows, p.columns, p.matrices),
        kernel_(Ref<MPSMatrixMultiplication*>::own([[MPSMatrixMultiplication alloc]
             initWithDevice:device.objects().device.get()
              transposeLeft:attributes.transpose_a
             transposeRight:attributes.transpose_b
                 resultRows:static_cast<NSUInteger>(p.rows)
              resultColumns:static_cast<NSUInteger>(p.columns)
            interiorColumns:static_cast<NSUInteger>(p.inner)
                      alpha:attributes.alpha
                       beta:0])) {
    [kernel_.get() setBatchSize:static_cast<NSUInteger>(p.matrices)];
  }

  ir::ValueId a_value_, b_value_, y_value_;
  MatrixAt a_, b_, y_;
  Ref<MPSMatrixMultiplication*> kernel_;
};

// --- softmax -------------------------------------------------------------------------------------

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

std::vector<KernelEntry> mps_matrix_entries() {
  return {{ir::Op::matmul, supports_matmul, make<Matmul>},
          {ir::Op::softmax, supports_softmax, make<Softmax>},
          {ir::Op::softmax_gradient, supports_softmax, make<SoftmaxGradient>}};
}

}  // namespace traingraph::metal
