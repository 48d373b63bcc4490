// MPSMatrixMultiplication, for matrix products of ops. It works on memory as it lies, so nothing is
// copied.
#include "backends/metal/images/images.h"
#include "backends/metal/kernels/entries.h"
#include "backends/metal/shaders/shader_kernel.h"

namespace traingraph::metal {
namespace {

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
  if (!Product(graph, node).possible) return Support::no("mps: matrices that are broadcast");
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

}  // namespace

std::vector<KernelEntry> mps_matmul_entries() {
  return {{ir::Op::matmul, supports_matmul, make<Matmul>}};
}

}  // namespace traingraph::metal
