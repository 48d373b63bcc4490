// The core of layer, group and instance normalization and its gradient: a thread, warp or block per
// row, sums in float64.
#include "backends/cuda/device/storage.h"
#include "backends/cuda/kernel/node_kernel.h"
#include "backends/cuda/tasks/rows.h"

namespace traingraph::cuda {
namespace {

struct RowStatistics {
  double mean, variance, inverse;
};

template <class S>
__device__ double number(const S& x) {
  return static_cast<double>(widen(x));
}

template <int kLanes, class S>
__device__ RowStatistics statistics_of(const Rows& rows, const Row& row, double epsilon,
                                       const S* x) {
  double sum = 0, squares = 0;
  for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) sum += number(x[row.first + k]);
  const double mean = combine<kLanes>(sum, Sum()) / static_cast<double>(rows.extent);
  for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) {
    const double centered = number(x[row.first + k]) - mean;
    squares += centered * centered;
  }
  const double variance = combine<kLanes>(squares, Sum()) / static_cast<double>(rows.extent);
  return {mean, variance, 1 / ::sqrt(variance + epsilon)};
}

template <class S, int kLanes>
__global__ void __launch_bounds__(kThreads)
    normalize(const __grid_constant__ Rows rows, double epsilon, const S* x, S* y, Compute<S>* mean,
              Compute<S>* inverse, Compute<S>* variance) {
  const Row row = rows.mine<kLanes>(static_cast<int>(blockIdx.x));
  if (!row.there) return;
  const RowStatistics s = statistics_of<kLanes>(rows, row, epsilon, x);
  for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) {
    const double normal = (number(x[row.first + k]) - s.mean) * s.inverse;
    y[row.first + k] = narrow<S>(static_cast<Compute<S>>(normal));
  }
  if (row.lane != 0) return;
  mean[row.number] = static_cast<Compute<S>>(s.mean);
  inverse[row.number] = static_cast<Compute<S>>(s.inverse);
  variance[row.number] = static_cast<Compute<S>>(s.variance);
}

template <class S, int kLanes>
__global__ void __launch_bounds__(kThreads)
    differentiate(const __grid_constant__ Rows rows, double epsilon, const S* dy, const S* x,
                  S* dx) {
  const Row row = rows.mine<kLanes>(static_cast<int>(blockIdx.x));
  if (!row.there) return;
  const RowStatistics s = statistics_of<kLanes>(rows, row, epsilon, x);
  double sum = 0, products = 0;
  for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) {
    const double g = number(dy[row.first + k]);
    sum += g;
    products += g * ((number(x[row.first + k]) - s.mean) * s.inverse);
  }
  const double mean = combine<kLanes>(sum, Sum()) / static_cast<double>(rows.extent);
  const double along = combine<kLanes>(products, Sum()) / static_cast<double>(rows.extent);
  for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) {
    const double normal = (number(x[row.first + k]) - s.mean) * s.inverse;
    const double moved = (number(dy[row.first + k]) - mean) - normal * along;
    dx[row.first + k] = narrow<S>(static_cast<Compute<S>>(s.inverse * moved));
  }
}

Rows rows_of(const ir::Graph& graph, const ir::Node& node) {
  const Shape& shape = graph.type(node.outputs[0]).shape;
  const auto axis = static_cast<std::size_t>(std::get<ir::RowNormAttributes>(node.attributes).axis);
  Shape flat = {1, 1};
  for (std::size_t k = 0; k < shape.size(); ++k) flat[k < axis ? 0 : 1] *= shape[k];
  return Rows(flat, 1);
}

template <class S>
class RowNorm final : public NodeKernel {
 public:
  RowNorm(const ir::Graph& graph, const ir::Node& node)
      : NodeKernel(graph, node),
        rows_(rows_of(graph, node)),
        epsilon_(std::get<ir::RowNormAttributes>(node.attributes).epsilon) {}

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (rows_.count() == 0) return;
    with_lanes(rows_.lanes(), [&](auto lanes) {
      constexpr int kLanes = decltype(lanes)::value;
      const auto blocks = blocks_for(rows_.count() * kLanes);
      if (inputs_.size() == 2) {
        differentiate<S, kLanes><<<blocks, kThreads, 0, stream>>>(
            rows_, epsilon_, in<S>(pointers, 0), in<S>(pointers, 1), out<S>(pointers, 0));
      } else {
        normalize<S, kLanes><<<blocks, kThreads, 0, stream>>>(
            rows_, epsilon_, in<S>(pointers, 0), out<S>(pointers, 0), out<Compute<S>>(pointers, 1),
            out<Compute<S>>(pointers, 2), out<Compute<S>>(pointers, 3));
      }
    });
    check_launch("normalised rows");
  }

 private:
  Rows rows_;
  double epsilon_;
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (std::get<ir::RowNormAttributes>(node.attributes).affine) {
    return Support::no("row norm: no factors or shifts");
  }
  return supports_floating_or_half(graph, node);
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context&) {
  switch (graph.type(node.outputs[0]).data_type) {
    case DataType::kFloat64:
      return std::make_unique<RowNorm<double>>(graph, node);
    case DataType::kFloat16:
      return std::make_unique<RowNorm<__half>>(graph, node);
    case DataType::kBFloat16:
      return std::make_unique<RowNorm<__nv_bfloat16>>(graph, node);
    default:
      return std::make_unique<RowNorm<float>>(graph, node);
  }
}

}  // namespace

std::vector<KernelEntry> row_norm_entries() {
  return {{ir::Op::row_norm, supports, make, nullptr, nullptr},
          {ir::Op::row_norm_gradient, supports, make, nullptr, nullptr}};
}

}  // namespace traingraph::cuda
