// Normalisation per channel and its gradient. Tensors (N, C, …) are seen as (N, C, S). Sums per
// channel are cut by shape and added in a fixed order in float64. Two launches: parts of the sums,
// then every block adds its channel's parts and writes its share of the result.
#include "backends/cuda/device.h"
#include "backends/cuda/node_kernel.h"

namespace traingraph::cuda {
namespace {

constexpr int kMostParts = 32;  // a warp adds them
constexpr std::int64_t kBlocksWanted = 4096;

struct Plan {
  std::int64_t channels, run, count;  // C, S, N S
  std::int64_t parts, length;         // of each channel's elements
  Divider by_run;
  double epsilon;

  // Where element k of a channel lies.
  __device__ std::int64_t offset(std::int64_t channel, std::int64_t k) const {
    std::int64_t n = k;
    const std::int64_t s = by_run.split(n);
    return (n * channels + channel) * run + s;
  }
};

struct Pair {
  double a, b;
};

// What a block works on: one part of one channel.
struct Share {
  std::int64_t channel, part, first, last;

  __device__ explicit Share(const Plan& plan)
      : channel(blockIdx.x / plan.parts),
        part(blockIdx.x % plan.parts),
        first(part * plan.length),
        last(first + plan.length < plan.count ? first + plan.length : plan.count) {}
};

template <class T, int kPack>
struct alignas(kPack * sizeof(T)) Elements {
  T at[kPack];
};

// Adds pairs over the block; thread 0 writes them to partial (C, parts).
__device__ void put(const Plan& plan, const Share& share, Pair sum, Pair* partial) {
  const double a = combine<kThreads>(sum.a, Sum());
  const double b = combine<kThreads>(sum.b, Sum());
  if (threadIdx.x == 0) partial[share.channel * plan.parts + share.part] = {a, b};
}

// The sums of a channel, for every thread of a block.
__device__ Pair sums_of(const Plan& plan, std::int64_t channel, const Pair* partial) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Pair sum = {0, 0};
  if (lane < plan.parts) sum = partial[channel * plan.parts + lane];
  return {combine<32>(sum.a, Sum()), combine<32>(sum.b, Sum())};
}

// Of x minus the channel's first element, so that a mean far from 0 costs no digits: sum and sum of
// squares.
template <class T, int kPack>
__global__ void __launch_bounds__(kThreads)
    moments(const __grid_constant__ Plan plan, const T* x, Pair* partial) {
  const Share share(plan);
  const T shift = x[plan.offset(share.channel, 0)];
  Pair sum = {0, 0};
#pragma unroll 2
  for (std::int64_t k = share.first + threadIdx.x * kPack; k < share.last; k += kThreads * kPack) {
    const auto pack =
        *reinterpret_cast<const Elements<T, kPack>*>(x + plan.offset(share.channel, k));
    T part = T(0), squares = T(0);
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      const T difference = pack.at[v] - shift;
      part += difference;
      squares += difference * difference;
    }
    sum.a += static_cast<double>(part);
    sum.b += static_cast<double>(squares);
  }
  put(plan, share, sum, partial);
}

// x (N, C, S), gamma (C), beta (C) → y (N, C, S), mean (C), inverse_deviation (C), variance (C).
template <class T>
struct Forward {
  const T *x, *gamma, *beta;
  T *y, *mean, *inverse_deviation, *variance;
};

template <class T, int kPack>
__global__ void __launch_bounds__(kThreads)
    normalize(const __grid_constant__ Plan plan, Forward<T> a, const Pair* partial) {
  const Share share(plan);
  const std::int64_t c = share.channel;
  const Pair sum = sums_of(plan, c, partial);
  const double count = static_cast<double>(plan.count);
  const double distance = sum.a / count;
  const double mean = static_cast<double>(a.x[plan.offset(c, 0)]) + distance;
  const double spread = sum.b / count - distance * distance;
  const double variance = spread < 0 ? 0 : spread;
  const double inverse_deviation = 1 / ::sqrt(variance + plan.epsilon);
  if (share.part == 0 && threadIdx.x == 0) {
    a.mean[c] = static_cast<T>(mean);
    a.inverse_deviation[c] = static_cast<T>(inverse_deviation);
    a.variance[c] = static_cast<T>(variance);
  }
  // The mean in two pieces: its rounding would show in y where it is far from 0.
  const T high = static_cast<T>(mean);
  const T low = static_cast<T>(mean - static_cast<double>(high));
  const T scale = static_cast<T>(inverse_deviation * static_cast<double>(a.gamma[c]));
  const T beta = a.beta[c];
#pragma unroll 2
  for (std::int64_t k = share.first + threadIdx.x * kPack; k < share.last; k += kThreads * kPack) {
    const std::int64_t at = plan.offset(c, k);
    auto pack = *reinterpret_cast<const Elements<T, kPack>*>(a.x + at);
#pragma unroll
    for (int v = 0; v < kPack; ++v) pack.at[v] = ((pack.at[v] - high) - low) * scale + beta;
    *reinterpret_cast<Elements<T, kPack>*>(a.y + at) = pack;
  }
}

// dy (N, C, S), x (N, C, S), mean (C), inverse_deviation (C), gamma (C) →
// dx (N, C, S), dgamma (C), dbeta (C), all overwritten. With z = (x - mean) inverse_deviation and
// M = N S elements per channel:
//   dbeta = Σ dy, dgamma = Σ dy z, dx = gamma inverse_deviation (dy - dbeta / M - z dgamma / M)
template <class T>
struct Backward {
  const T *dy, *x, *mean, *inverse_deviation, *gamma;
  T *dx, *dgamma, *dbeta;
};

template <class T, int kPack>
__global__ void __launch_bounds__(kThreads)
    gradient_sums(const __grid_constant__ Plan plan, Backward<T> a, Pair* partial) {
  const Share share(plan);
  const T mean = a.mean[share.channel], inverse_deviation = a.inverse_deviation[share.channel];
  Pair sum = {0, 0};
#pragma unroll 2
  for (std::int64_t k = share.first + threadIdx.x * kPack; k < share.last; k += kThreads * kPack) {
    const std::int64_t at = plan.offset(share.channel, k);
    const auto dy = *reinterpret_cast<const Elements<T, kPack>*>(a.dy + at);
    const auto x = *reinterpret_cast<const Elements<T, kPack>*>(a.x + at);
    T part = T(0), products = T(0);
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      part += dy.at[v];
      products += dy.at[v] * ((x.at[v] - mean) * inverse_deviation);
    }
    sum.a += static_cast<double>(part);
    sum.b += static_cast<double>(products);
  }
  put(plan, share, sum, partial);
}

template <class T, int kPack>
__global__ void __launch_bounds__(kThreads)
    gradient_apply(const __grid_constant__ Plan plan, Backward<T> a, const Pair* partial) {
  const Share share(plan);
  const std::int64_t c = share.channel;
  const Pair sum = sums_of(plan, c, partial);
  if (share.part == 0 && threadIdx.x == 0) {
    a.dbeta[c] = static_cast<T>(sum.a);
    a.dgamma[c] = static_cast<T>(sum.b);
  }
  const T mean = a.mean[c], inverse_deviation = a.inverse_deviation[c];
  const T scale = a.gamma[c] * inverse_deviation;
  const T dbeta = static_cast<T>(sum.a / static_cast<double>(plan.count));
  const T dgamma = static_cast<T>(sum.b / static_cast<double>(plan.count));
#pragma unroll 2
  for (std::int64_t k = share.first + threadIdx.x * kPack; k < share.last; k += kThreads * kPack) {
    const std::int64_t at = plan.offset(c, k);
    auto dy = *reinterpret_cast<const Elements<T, kPack>*>(a.dy + at);
    const auto x = *reinterpret_cast<const Elements<T, kPack>*>(a.x + at);
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      const T z = (x.at[v] - mean) * inverse_deviation;
      dy.at[v] = scale * (dy.at[v] - (dbeta + z * dgamma));
    }
    *reinterpret_cast<Elements<T, kPack>*>(a.dx + at) = dy;
  }
}

template <class T>
class BatchNorm final : public NodeKernel {
 public:
  BatchNorm(const ir::Graph& graph, const ir::Node& node, const Context&)
      : NodeKernel(graph, node), gradient_(node.op == ir::Op::batch_norm_gradient) {
    const Shape& shape = graph.type(node.inputs[gradient_ ? 1 : 0]).shape;
    plan_.channels = shape[1];
    plan_.count = shape[1] == 0 ? 0 : element_count(shape) / shape[1];
    plan_.run = shape[0] == 0 ? 0 : plan_.count / shape[0];
    plan_.by_run = Divider(plan_.run);
    plan_.epsilon = std::get<ir::BatchNormAttributes>(node.attributes).epsilon;
    packs_ = plan_.run % Pack<T>::kElements == 0;
    cut();
  }

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(plan_.channels * plan_.parts) * sizeof(Pair);
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (plan_.channels * plan_.count == 0) return;
    if (packs_) {
      enqueue<Pack<T>::kElements>(pointers, stream);
    } else {
      enqueue<1>(pointers, stream);
    }
    check_launch("batch_norm");
  }

 private:
  void cut() {
    constexpr std::int64_t kLeast = 4 * kThreads;
    const std::int64_t wanted = kBlocksWanted / std::max<std::int64_t>(1, plan_.channels);
    const std::int64_t most = std::min<std::int64_t>(kMostParts, plan_.count / kLeast);
    plan_.parts = std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, most));
    plan_.length = (plan_.count + plan_.parts - 1) / plan_.parts;
    plan_.length = (plan_.length + kLeast - 1) / kLeast * kLeast;
    plan_.parts = std::max<std::int64_t>(1, (plan_.count + plan_.length - 1) / plan_.length);
  }

  template <int kPack>
  void enqueue(Pointers pointers, cudaStream_t stream) const {
    const auto blocks = static_cast<unsigned>(plan_.channels * plan_.parts);
    Pair* const partial = workspace<Pair>(pointers);
    if (gradient_) {
      const Backward<T> a{in<T>(pointers, 0),  in<T>(pointers, 1),  in<T>(pointers, 2),
                          in<T>(pointers, 3),  in<T>(pointers, 4),  out<T>(pointers, 0),
                          out<T>(pointers, 1), out<T>(pointers, 2)};
      gradient_sums<T, kPack><<<blocks, kThreads, 0, stream>>>(plan_, a, partial);
      gradient_apply<T, kPack><<<blocks, kThreads, 0, stream>>>(plan_, a, partial);
      return;
    }
    const Forward<T> a{in<T>(pointers, 0),  in<T>(pointers, 1),  in<T>(pointers, 2),
                       out<T>(pointers, 0), out<T>(pointers, 1), out<T>(pointers, 2),
                       out<T>(pointers, 3)};
    moments<T, kPack><<<blocks, kThreads, 0, stream>>>(plan_, a.x, partial);
    normalize<T, kPack><<<blocks, kThreads, 0, stream>>>(plan_, a, partial);
  }

  bool gradient_, packs_;
  Plan plan_{};
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (!std::get<ir::BatchNormAttributes>(node.attributes).epilogue.empty()) {
    return Support::no("an epilogue");
  }
  return supports_floating(graph, node);
}

}  // namespace

std::vector<KernelEntry> batch_norm_entries() {
  return {{ir::Op::batch_norm, supports, make_floating<BatchNorm>, nullptr, nullptr},
          {ir::Op::batch_norm_gradient, supports, make_floating<BatchNorm>, nullptr, nullptr}};
}

}  // namespace traingraph::cuda
