// Softmax, its logarithm and their gradients: one thread, warp or block per row, by shape.
#include "backends/cuda/device.h"
#include "backends/cuda/node_kernel.h"
#include "backends/cuda/rows.h"

namespace traingraph::cuda {
namespace {

// x → y, of the rows' shape. The maximum is subtracted first.
template <class T, int kLanes>
__global__ void __launch_bounds__(kThreads)
    softmax(const __grid_constant__ Rows rows, bool logarithm, const T* x, T* y) {
  const Row row = rows.mine<kLanes>();
  if (!row.there) return;
  T largest = -infinity<T>();
  for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) {
    largest = Largest()(largest, x[row.first + k * rows.inner]);
  }
  largest = combine<kLanes>(largest, Largest());
  double sum = 0;
  for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) {
    sum += static_cast<double>(::exp(x[row.first + k * rows.inner] - largest));
  }
  const T total = static_cast<T>(combine<kLanes>(sum, Sum()));
  const T log_total = ::log(total);
  for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) {
    const std::int64_t at = row.first + k * rows.inner;
    const T shifted = x[at] - largest;
    y[at] = logarithm ? shifted - log_total : ::exp(shifted) / total;
  }
}

// dy, y → dx, overwritten: y (dy - Σ dy y), or dy - e^y Σ dy for the logarithm.
template <class T, int kLanes>
__global__ void __launch_bounds__(kThreads)
    softmax_gradient(const __grid_constant__ Rows rows, bool logarithm, const T* dy, const T* y,
                     T* dx) {
  const Row row = rows.mine<kLanes>();
  if (!row.there) return;
  double sum = 0;
  for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) {
    const std::int64_t at = row.first + k * rows.inner;
    const double gradient = static_cast<double>(dy[at]);
    sum += logarithm ? gradient : gradient * static_cast<double>(y[at]);
  }
  const T total = static_cast<T>(combine<kLanes>(sum, Sum()));
  for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) {
    const std::int64_t at = row.first + k * rows.inner;
    dx[at] = logarithm ? dy[at] - ::exp(y[at]) * total : y[at] * (dy[at] - total);
  }
}

template <class T>
class Softmax final : public NodeKernel {
 public:
  Softmax(const ir::Graph& graph, const ir::Node& node, const Context&)
      : NodeKernel(graph, node),
        rows_(graph.type(node.outputs[0]).shape,
              std::get<ir::SoftmaxAttributes>(node.attributes).axis),
        logarithm_(std::get<ir::SoftmaxAttributes>(node.attributes).logarithm),
        gradient_(node.op == ir::Op::softmax_gradient) {}

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (rows_.count() == 0) return;
    with_lanes(rows_.lanes(), [&](auto lanes) {
      constexpr int kLanes = decltype(lanes)::value;
      const unsigned blocks = blocks_for(rows_.count() * kLanes);
      if (gradient_) {
        softmax_gradient<T, kLanes><<<blocks, kThreads, 0, stream>>>(
            rows_, logarithm_, in<T>(pointers, 0), in<T>(pointers, 1), out<T>(pointers, 0));
      } else {
        softmax<T, kLanes><<<blocks, kThreads, 0, stream>>>(rows_, logarithm_, in<T>(pointers, 0),
                                                            out<T>(pointers, 0));
      }
    });
    check_launch("softmax");
  }

 private:
  Rows rows_;
  bool logarithm_, gradient_;
};

}  // namespace

std::vector<KernelEntry> softmax_entries() {
  return {{ir::Op::softmax, supports_floating, make_floating<Softmax>, nullptr, nullptr},
          {ir::Op::softmax_gradient, supports_floating, make_floating<Softmax>, nullptr, nullptr}};
}

}  // namespace traingraph::cuda
