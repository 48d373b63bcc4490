// Matrix products by Accelerate's BLAS: y = alpha op(a) op(b) on the last two axes, one call per
// matrix; leading axes broadcast.
#include "backends/bnns/accelerate.h"
#include "backends/bnns/bnns.h"

namespace traingraph::bnns {
namespace {

// The last two axes, and how far apart the matrices lie that make up one operand.
struct Matrices {
  int columns;  // of a row as stored: the leading dimension
  Shape steps;  // elements to the next matrix along each leading axis of y; 0 repeats
  CBLAS_TRANSPOSE transposed;

  Matrices(const Shape& shape, const Shape& y, bool transposed_in)
      : columns(static_cast<int>(shape.back())),
        steps(y.size() - 2, 0),
        transposed(transposed_in ? CblasTrans : CblasNoTrans) {
    const Shape dense = ir::dense_strides(shape);
    const std::size_t missing = y.size() - shape.size();
    for (std::size_t axis = 0; axis + 2 < shape.size(); ++axis) {
      if (shape[axis] != 1) steps[axis + missing] = dense[axis];
    }
  }
};

class Matmul final : public Kernel {
 public:
  Matmul(const ir::Graph& graph, const ir::Node& node, const ir::MatmulAttributes& attributes)
      : result_(graph.type(node.outputs[0]).shape),
        a_(graph.type(node.inputs[0]).shape, result_, attributes.transpose_a),
        b_(graph.type(node.inputs[1]).shape, result_, attributes.transpose_b),
        alpha_(static_cast<float>(attributes.alpha)),
        node_(node) {
    const Shape& a = graph.type(node.inputs[0]).shape;
    rows_ = static_cast<int>(result_[result_.size() - 2]);
    columns_ = static_cast<int>(result_.back());
    inner_ = static_cast<int>(attributes.transpose_a ? a[a.size() - 2] : a.back());
    fold_rows();
  }

  void run(Pointers pointers) override {
    const float* a = read(pointers, node_.inputs[0]);
    const float* b = read(pointers, node_.inputs[1]);
    float* y = write(pointers, node_.outputs[0]);
    const std::int64_t size = std::int64_t{rows_} * columns_;
    for (std::int64_t m = 0; m < matrices_; ++m) {
      cblas_sgemm(CblasRowMajor, a_.transposed, b_.transposed, rows_, columns_, inner_, alpha_,
                  a + offset(a_, m), a_.columns, b + offset(b_, m), b_.columns, 0, y + m * size,
                  columns_);
    }
  }

 private:
  // One matrix b for all: the leading axes of a are more rows of one product.
  void fold_rows() {
    matrices_ = element_count(result_) / (std::int64_t{rows_} * columns_);
    if (matrices_ == 1 || a_.transposed == CblasTrans) return;
    const bool one_b = offset(b_, matrices_ - 1) == 0;
    const bool dense_a = offset(a_, matrices_ - 1) == (matrices_ - 1) * rows_ * inner_;
    if (!one_b || !dense_a) return;
    rows_ *= static_cast<int>(matrices_);
    matrices_ = 1;
  }

  std::int64_t offset(const Matrices& of, std::int64_t matrix) const {
    std::int64_t found = 0;
    for (std::size_t axis = of.steps.size(); axis-- > 0;) {
      found += matrix % result_[axis] * of.steps[axis];
      matrix /= result_[axis];
    }
    return found;
  }

  Shape result_;
  Matrices a_, b_;
  float alpha_;
  ir::Node node_;
  int rows_, columns_, inner_;
  std::int64_t matrices_;
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (Support s = plain_float32(graph, node); !s.yes) return s;
  constexpr std::int64_t kMost = 1 << 30;  // extents are int there
  for (ir::ValueId id : {node.inputs[0], node.inputs[1], node.outputs[0]}) {
    if (graph.type(id).elements() > kMost) return Support::no("BLAS: more than 2^30 elements");
  }
  return {};
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<Matmul>(graph, node, std::get<ir::MatmulAttributes>(node.attributes));
}

}  // namespace

const std::vector<KernelEntry>& matmul_entries() {
  static const std::vector<KernelEntry> entries = {{ir::Op::matmul, supports, make}};
  return entries;
}

}  // namespace traingraph::bnns
