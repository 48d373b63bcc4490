// Softmax, its logarithm and their gradients along any axis, by vDSP and vForce.
#include <algorithm>
#include <cmath>

#include "backends/bnns/bnns.h"
#include "backends/bnns/rows.h"

namespace traingraph::bnns {
namespace {

class Softmax final : public Kernel {
 public:
  Softmax(const ir::Graph& graph, const ir::Node& node)
      : rows_(graph.type(node.inputs[0]).shape,
              std::get<ir::SoftmaxAttributes>(node.attributes).axis),
        logarithm_(std::get<ir::SoftmaxAttributes>(node.attributes).logarithm),
        node_(node),
        workspace_(workspace_of(graph, node)) {}

  std::size_t workspace_bytes() const override { return 2 * rows_.extent * sizeof(float); }

  void run(Pointers pointers) override {
    float* row = reinterpret_cast<float*>(pointers[workspace_]);
    float* other = row + rows_.extent;
    for (std::size_t at = 0; at < rows_.count(); ++at) {
      rows_.gather(read(pointers, node_.inputs[0]), at, row);
      if (node_.op == ir::Op::softmax) {
        forward(row, other);
      } else {
        const float* y = read(pointers, node_.inputs[1]);
        gradient(row, y, at, other);
      }
      rows_.scatter(row, at, write(pointers, node_.outputs[0]));
    }
  }

 private:
  void forward(float* x, float* powers) const {
    shift_by_largest(x, rows_.extent);
    std::copy_n(x, rows_.extent, powers);
    exponentials(powers, rows_.extent);
    const double total = sum({powers, 1}, rows_.extent);
    if (logarithm_) {
      const auto shift = static_cast<float>(-std::log(total));
      vDSP_vsadd(x, 1, &shift, x, 1, rows_.extent);
    } else {
      const auto divisor = static_cast<float>(total);
      vDSP_vsdiv(powers, 1, &divisor, x, 1, rows_.extent);
    }
  }

  // dy becomes y (dy - Σ dy y), or dy - e^y Σ dy for the logarithm.
  void gradient(float* dy, const float* result, std::size_t at, float* y) const {
    rows_.gather(result, at, y);
    if (logarithm_) {
      exponentials(y, rows_.extent);
      const auto factor = static_cast<float>(-sum({dy, 1}, rows_.extent));
      vDSP_vsma(y, 1, &factor, dy, 1, dy, 1, rows_.extent);
    } else {
      const auto shift = static_cast<float>(-dot({dy, 1}, {y, 1}, rows_.extent));
      vDSP_vsadd(dy, 1, &shift, dy, 1, rows_.extent);
      vDSP_vmul(dy, 1, y, 1, dy, 1, rows_.extent);
    }
  }

  Rows rows_;
  bool logarithm_;
  ir::Node node_;
  std::size_t workspace_;
};

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<Softmax>(graph, node);
}

}  // namespace

const std::vector<KernelEntry>& softmax_entries() {
  static const std::vector<KernelEntry> entries = {{ir::Op::softmax, plain_float32, make},
                                                   {ir::Op::softmax_gradient, plain_float32, make}};
  return entries;
}

}  // namespace traingraph::bnns
