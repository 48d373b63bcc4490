// Gradients of a residual batch norm pair: two batch norms whose results are added before a ReLU.
// Both read the same dy, which is computed and read once.
#include "backends/cuda/convolution/layouts.h"
#include "backends/cuda/normalization/batch_norm_rows.h"
#include "backends/cuda/normalization/prefetch.h"

namespace traingraph::cuda {
namespace {

// Operands of the second one.
template <class S>
struct Paired {
  const S* x;
  const Compute<S>*mean, *inverse_deviation, *gamma;
  S* dx;
  Compute<S>*dgamma, *dbeta;
};

// Writes dy + added where the mask is set, and sums it and its products with either x. `partial`
// has the sums of the first batch norm, then those of the second, without a second sum of dy.
template <class S, int kPack>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce<S>)
    pair_sums(const __grid_constant__ Rows plan, Gradients<S> a, Paired<S> b, Compute<S>* partial) {
  using T = Compute<S>;
  const Place<kPack> place(plan);
  const S* const sources[] = {a.dy, a.added, a.x, b.x};
  RowPrefetch<S, kPack, 4, true> rows(plan, place, sources, a.relu_mask);
  T sum[kPack] = {}, products[kPack] = {}, paired_products[kPack] = {}, none[kPack] = {};
  if (place.there) {
    T mean[kPack], inverse[kPack], paired_mean[kPack], paired_inverse[kPack];
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      mean[v] = a.mean[place.channel + v];
      inverse[v] = a.inverse_deviation[place.channel + v];
      paired_mean[v] = b.mean[place.channel + v];
      paired_inverse[v] = b.inverse_deviation[place.channel + v];
    }
    rows.for_each([&](std::int64_t at, const auto& packs, std::uint32_t relu_mask) {
      auto dy_sum = sum_of(packs[0], packs[1]);
      apply_relu_mask(dy_sum, relu_mask_in<kPack>(relu_mask, at));
      const auto dy = widen(dy_sum), x = widen(packs[2]), paired_x = widen(packs[3]);
#pragma unroll
      for (int v = 0; v < kPack; ++v) {
        sum[v] += dy.element[v];
        products[v] += product<S>(dy.element[v], x.element[v] - mean[v], inverse[v]);
        paired_products[v] +=
            product<S>(dy.element[v], paired_x.element[v] - paired_mean[v], paired_inverse[v]);
      }
      store(a.dy_sum + at, dy_sum);
    });
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      products[v] = product_sum<S>(products[v], a.inverse_deviation[place.channel + v]);
      paired_products[v] =
          product_sum<S>(paired_products[v], b.inverse_deviation[place.channel + v]);
    }
  }
  put(plan, sum, products, partial);
  __syncthreads();  // `put` reuses its shared memory
  put(plan, none, paired_products, partial + plan.partial);
}

// dy and either x of kRows rows, zeros beyond the last.
template <class S, int kPack, int kRows>
struct Three {
  Pack<S, kPack> dy[kRows] = {}, x[kRows] = {}, paired_x[kRows] = {};

  __device__ Three(const Rows& plan, const Gradients<S>& a, const Paired<S>& b, std::int64_t row,
                   int step, std::int64_t channel) {
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      if (row + k * step >= plan.rows) break;
      const std::int64_t at = (row + k * step) * plan.channels + channel;
      dy[k] = load<kPack>(a.dy_sum + at);
      x[k] = load<kPack>(a.x + at);
      paired_x[k] = load<kPack>(b.x + at);
    }
  }
};

template <class S, int kPack>
__device__ Pack<S, kPack> dx_of(const Slopes<S, kPack>& slopes, const Pack<Compute<S>, kPack>& dy,
                                const Pack<S, kPack>& x) {
  auto dx = widen(x);
#pragma unroll
  for (int v = 0; v < kPack; ++v) {
    dx.element[v] = slopes.dx(v, dy.element[v], dx.element[v]);
  }
  return narrow<S>(dx);
}

template <class S, int kPack>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce<S>)
    pair_apply(const __grid_constant__ Rows plan, Gradients<S> a, Paired<S> b,
               const Compute<S>* partial) {
  using T = Compute<S>;
  constexpr int kRows = 2;
  const Place<kPack> place(plan);
  const auto three_at = [&](std::int64_t row) {
    return Three<S, kPack, kRows>(plan, a, b, row, place.step, place.channel);
  };
  LoadedTiles<kRows, decltype(three_at)> tiles(plan, place, three_at);
  const double* sums = sums_of<T, kPack>(plan, partial);
  // The four numbers of the first one, and the sum of dy, which the second one shares.
  const auto* const numbers =
      per_channel<T, kPack, 5>(plan, [&](int c, std::int64_t channel, T* to) {
        const double* const sum = sums + c * 2;
        if (blockIdx.y == 0) {
          a.dbeta[channel] = b.dbeta[channel] = static_cast<T>(sum[0]);
          a.dgamma[channel] = static_cast<T>(sum[1]);
        }
        put_slope<S>(sum, plan.rows, a.mean[channel], a.gamma[channel],
                     a.inverse_deviation[channel], to);
        to[4] = static_cast<T>(sum[0]);
      });
  sums = sums_of<T, kPack>(plan, partial + plan.partial);
  const auto* const paired_numbers =
      per_channel<T, kPack, 4>(plan, [&](int c, std::int64_t channel, T* to) {
        const double sum[] = {static_cast<double>(numbers[c][4]), sums[c * 2 + 1]};
        if (blockIdx.y == 0) b.dgamma[channel] = static_cast<T>(sum[1]);
        put_slope<S>(sum, plan.rows, b.mean[channel], b.gamma[channel],
                     b.inverse_deviation[channel], to);
      });
  if (!place.there) return;
  const Slopes<S, kPack> slopes(numbers, place.lane), paired_slopes(paired_numbers, place.lane);
  tiles.for_each(plan, [&](std::int64_t row, const auto& three) {
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      if (row + k * place.step >= plan.rows) break;
      const std::int64_t at = (row + k * place.step) * plan.channels + place.channel;
      const auto dy = widen(three.dy[k]);
      store(a.dx + at, dx_of<S, kPack>(slopes, dy, three.x[k]));
      store(b.dx + at, dx_of<S, kPack>(paired_slopes, dy, three.paired_x[k]));
    }
  });
}

template <class S>
class ResidualPairGradient final : public NodeKernel {
 public:
  ResidualPairGradient(const ir::Graph& graph, const ir::Node& node, const Context& context)
      : NodeKernel(graph, node), operands_(graph, node) {
    const Shape& shape = graph.type(node.inputs[0]).shape;
    const double epsilon = std::get<ir::BatchNormAttributes>(node.attributes).epsilon;
    plan_ = Rows(element_count(shape) / shape[1], shape[1], sizeof(S), epsilon,
                 context.multiprocessors, context.cluster_blocks > 1);
  }

  std::size_t workspace_bytes() const override {
    return 2 * static_cast<std::size_t>(plan_.partial) * sizeof(Compute<S>);
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    using T = Compute<S>;
    const std::size_t first = inputs_.size() - 4, result = outputs_.size() - 3;
    const Gradients<S> a = operands_.gradients<S>(pointers);
    const Paired<S> b{in<S>(pointers, first),      in<T>(pointers, first + 1),
                      in<T>(pointers, first + 2),  in<T>(pointers, first + 3),
                      out<S>(pointers, result),    out<T>(pointers, result + 1),
                      out<T>(pointers, result + 2)};
    if (plan_.rows <= 2) return launch_few(a, b, stream);
    auto* const partial = workspace<T>(pointers);
    constexpr int kPack = Pack<S>::kElements;
    enqueue_sums(plan_, RowPrefetch<S, kPack, 4, true>::kBytes, stream, pair_sums<S, kPack>, a, b,
                 partial);
    enqueue_apply(plan_, 2, stream, pair_apply<S, kPack>, a, b, partial);
    check_launch("batch_norm_gradient, residual pair");
  }

 private:
  // The first launch writes dy_sum, and the second one reads it.
  void launch_few(const Gradients<S>& a, const Paired<S>& b, cudaStream_t stream) const {
    const FewValues few{plan_.channels, plan_.rows, 1, plan_.epsilon};
    Gradients<S> second = a.with_dy_sum();
    second.x = b.x;
    second.mean = b.mean;
    second.inverse_deviation = b.inverse_deviation;
    second.gamma = b.gamma;
    second.dx = b.dx;
    second.dgamma = b.dgamma;
    second.dbeta = b.dbeta;
    enqueue_few_values(few, a, stream);
    enqueue_few_values(few, second, stream);
    check_launch("batch_norm_gradient, residual pair");
  }

  BatchNormOperands operands_;
  Rows plan_;
};

// With a ReLU mask, rows consist of packs of 16 bytes.
Support supports(const ir::Graph& graph, const ir::Node& node) {
  const auto& attributes = std::get<ir::BatchNormAttributes>(node.attributes);
  const auto prologue = ir::gradient_prologue_of(attributes.epilogue);
  if (!attributes.has_residual_pair || !attributes.has_relu_mask || !prologue ||
      prologue->added < 0) {
    return Support::no("no residual pair");
  }
  // The second one's operands follow those of the first directly.
  const auto own = ir::BatchNormGradientOperands::paired(attributes.epilogue.inputs);
  const ir::Type& x = graph.type(node.inputs[1]);
  const ir::Type& paired_x = graph.type(node.inputs[own]);
  if (node.inputs.size() != own + 4 || x.shape != paired_x.shape ||
      x.data_type != paired_x.data_type) {
    return Support::no("a residual pair of another form");
  }
  return supports_floating_or_half(graph, node);
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context& context) {
  switch (graph.type(node.inputs[0]).data_type) {
    case DataType::kFloat16:
      return std::make_unique<ResidualPairGradient<__half>>(graph, node, context);
    case DataType::kBFloat16:
      return std::make_unique<ResidualPairGradient<__nv_bfloat16>>(graph, node, context);
    default:
      return std::make_unique<ResidualPairGradient<float>>(graph, node, context);
  }
}

}  // namespace

std::vector<KernelEntry> batch_norm_residual_pair_entries() {
  return {{ir::Op::batch_norm_gradient, supports, make, normalization_layouts, nullptr}};
}

}  // namespace traingraph::cuda
