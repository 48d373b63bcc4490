// The steps of an LSTM in one kernel, in exact float32. A block of a cluster has kClusterUnits
// units of all gates, and keeps their weights in registers. In each step the blocks exchange h, or
// the products of the gates' gradients, through their shared memory. Every sum has a fixed order.
#include "backends/cuda/products/lstm_clusters.h"

namespace traingraph::cuda {
namespace {

constexpr int kUnits = kClusterUnits, kSequences = kClusterSequences;
constexpr int kMostHidden = kUnits * kMostClusterBlocks;
constexpr int kRows = 4 * kUnits;          // of the weights in a block: units of four gates
constexpr int kOwn = kUnits * kSequences;  // cells of a block, one thread each
constexpr int kWarps = kThreads / 32;
constexpr int kDepth = kMostHidden / kWarps;  // columns of the weights in a warp

struct alignas(16) Values {
  float of[kSequences];
};

__device__ inline Values load_values(const Values& from) {
  Values values;
#pragma unroll
  for (int k = 0; k < kSequences; k += 4) {
    const Pack<float> pack = load<4>(from.of + k);
#pragma unroll
    for (int e = 0; e < 4; ++e) values.of[k + e] = pack.element[e];
  }
  return values;
}

// A cell of this thread, if it has one.
struct Cell {
  int unit_here = static_cast<int>(threadIdx.x) / kSequences;
  int sequence_here = static_cast<int>(threadIdx.x) % kSequences;
  std::int64_t unit, sequence;
  bool is_there;

  __device__ Cell(const Steps& s, unsigned block, unsigned cluster)
      : unit(std::int64_t{block} * kUnits + unit_here),
        sequence(std::int64_t{cluster} * kSequences + sequence_here),
        is_there(threadIdx.x < kOwn && unit < s.hidden && sequence < s.sequences) {}
  __device__ std::int64_t own(const Steps& s) const { return sequence * s.hidden + unit; }
};

template <class F>
__global__ void __launch_bounds__(kThreads, 1)
    move_through(const __grid_constant__ Steps s, const __grid_constant__ Forward<float> f,
                 const __grid_constant__ F functions, const float* from, float* to) {
  __shared__ Values states[2][kMostHidden];
  __shared__ Values partial[kWarps][kRows];
  const unsigned blocks = gridDim.x, block = blockIdx.x;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int hidden = static_cast<int>(s.hidden);
  const Cell own(s, block, blockIdx.y);

  // Rows `lane` and `lane` + 32, columns from warp * kDepth on.
  float weights[2][kDepth];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane + half * 32;
    const std::int64_t unit = std::int64_t{block} * kUnits + row % kUnits;
    const float* const source =
        f.weights + (row / kUnits * s.hidden + unit) * s.hidden + warp * kDepth;
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      const bool there = unit < s.hidden && warp * kDepth + k < hidden;
      weights[half][k] = there ? source[k] : 0.0f;
    }
  }
  for (int k = static_cast<int>(threadIdx.x); k < 2 * kMostHidden * kSequences; k += kThreads) {
    const int unit = k / kSequences % kMostHidden;
    const std::int64_t sequence = std::int64_t{blockIdx.y} * kSequences + k % kSequences;
    const bool there =
        k < kMostHidden * kSequences && from != nullptr && unit < hidden && sequence < s.sequences;
    (&states[0][0].of[0])[k] = there ? from[sequence * s.hidden + unit] : 0.0f;
  }
  LstmStep<float> step{};
  if (own.is_there && f.cell_from != nullptr) step.cell = f.cell_from[own.own(s)];
  if (own.is_there && from != nullptr) step.state = from[own.own(s)];
  float inputs[4] = {};
  const auto load_inputs = [&](std::int64_t k) {
    if (!own.is_there || k >= s.steps) return;
    const std::int64_t row = s.row(own.sequence, k);
#pragma unroll
    for (int gate = 0; gate < 4; ++gate) {
      inputs[gate] = f.inputs[(row * 4 + gate) * s.hidden + own.unit];
    }
  };
  load_inputs(0);
  sync_cluster();
  for (std::int64_t k = 0; k < s.steps; ++k) {
    const Values* const now = states[k % 2];
    Values sums[2] = {};
    if (warp * kDepth < hidden) {
#pragma unroll
      for (int i = 0; i < kDepth; ++i) {
        const Values state = load_values(now[warp * kDepth + i]);
#pragma unroll
        for (int n = 0; n < 2 * kSequences; ++n) {
          float& sum = sums[n / kSequences].of[n % kSequences];
          sum = __fmaf_rn(weights[n / kSequences][i], state.of[n % kSequences], sum);
        }
      }
    }
    partial[warp][lane] = sums[0];
    partial[warp][lane + 32] = sums[1];
    __syncthreads();
    if (threadIdx.x < kOwn) {
#pragma unroll
      for (int gate = 0; gate < 4; ++gate) {
        float sum = 0;
#pragma unroll
        for (int part = 0; part < kWarps; ++part) {
          sum += partial[part][gate * kUnits + own.unit_here].of[own.sequence_here];
        }
        step.gates[gate] = sum;
      }
      if (own.is_there) {
        step.run(s, f, functions, own.sequence, own.unit, k, inputs, step.state);
      }
      float* const next =
          &states[(k + 1) % 2][block * kUnits + own.unit_here].of[own.sequence_here];
#pragma unroll 4
      for (unsigned other = 0; other < blocks; ++other) {
        *const_cast<float*>(cluster_shared(next, other)) = step.state;
      }
    }
    // What goes to memory is not waited for.
    arrive_at_cluster();
    if (own.is_there) step.store(s, f, own.sequence, own.unit, k);
    load_inputs(k + 1);
    wait_for_cluster();
  }
  if (!own.is_there) return;
  to[own.own(s)] = step.state;
  f.cell[own.own(s)] = step.cell;
}

template <class F>
__global__ void __launch_bounds__(kThreads, 1)
    move_back_through(const __grid_constant__ Steps s, const __grid_constant__ Backward<float> b,
                      const __grid_constant__ F functions) {
  __shared__ Values gradients[kRows];
  __shared__ Values received[2][kMostClusterBlocks][kUnits];  // by the block that has sent them
  const unsigned blocks = gridDim.x, block = blockIdx.x;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const Cell own(s, block, blockIdx.y);

  // Of all rows' units `unit` and `unit` + kMostHidden / 2, half of the rows of this block.
  constexpr int kHalfRows = kRows / 2;
  const int half = lane / 16, unit = warp * 16 + lane % 16;
  float weights[2][kHalfRows];
#pragma unroll
  for (int k = 0; k < 2 * kHalfRows; ++k) {
    const int row = half * kHalfRows + k % kHalfRows;
    const std::int64_t from_unit = std::int64_t{block} * kUnits + row % kUnits;
    const std::int64_t to_unit = unit + k / kHalfRows * (kMostHidden / 2);
    const bool there = from_unit < s.hidden && to_unit < s.hidden;
    weights[k / kHalfRows][k % kHalfRows] =
        there ? b.weights[(row / kUnits * s.hidden + from_unit) * s.hidden + to_unit] : 0.0f;
  }
  const int target = unit + half * (kMostHidden / 2);  // whose sums this thread sends
  float dh = own.is_there && b.hidden_gradient != nullptr ? b.hidden_gradient[own.own(s)] : 0.0f;
  float dc =
      own.is_there && b.last_cell_gradient != nullptr ? b.last_cell_gradient[own.own(s)] : 0.0f;
  Kept<float> kept{};
  const auto load_kept = [&](std::int64_t k) {
    if (own.is_there && k >= 0) kept.load(s, b, own.sequence, own.unit, k);
  };
  load_kept(s.steps - 1);
  sync_cluster();
  for (std::int64_t k = s.steps - 1; k >= 0; --k) {
    float of_gates[4] = {};
    if (threadIdx.x < kOwn) {
      if (own.is_there) {
        step_back(s, b, functions, own.sequence, own.unit, k, kept, dh, dc, of_gates);
      }
      load_kept(k - 1);
#pragma unroll
      for (int gate = 0; gate < 4; ++gate) {
        gradients[gate * kUnits + own.unit_here].of[own.sequence_here] = of_gates[gate];
      }
    }
    __syncthreads();
    Values sums[2] = {};
#pragma unroll
    for (int i = 0; i < kHalfRows; ++i) {
      const Values gradient = load_values(gradients[half * kHalfRows + i]);
#pragma unroll
      for (int n = 0; n < 2 * kSequences; ++n) {
        float& sum = sums[n / kSequences].of[n % kSequences];
        sum = __fmaf_rn(weights[n / kSequences][i], gradient.of[n % kSequences], sum);
      }
    }
    // Each half gets the other's part of its own sums.
    Values sent;
#pragma unroll
    for (int n = 0; n < kSequences; ++n) {
      const float given = half == 0 ? sums[1].of[n] : sums[0].of[n];
      const float kept_part = half == 0 ? sums[0].of[n] : sums[1].of[n];
      const float other = __shfl_xor_sync(0xffffffffu, given, 16);
      sent.of[n] = half == 0 ? kept_part + other : other + kept_part;
    }
    if (target < static_cast<int>(blocks) * kUnits) {
      const Values* const place = &received[k % 2][block][target % kUnits];
      *const_cast<Values*>(cluster_shared(place, static_cast<unsigned>(target / kUnits))) = sent;
    }
    arrive_at_cluster();
    if (own.is_there) store_gradients(s, b, own.sequence, own.unit, k, of_gates);
    wait_for_cluster();
    if (own.is_there && s.reaches(own.sequence, k)) {
      dh = 0;
      for (unsigned other = 0; other < blocks; ++other) {
        dh += received[k % 2][other][own.unit_here].of[own.sequence_here];
      }
    }
  }
  if (!own.is_there) return;
  b.states[own.own(s)] = dh;
  b.cell_gradient[own.own(s)] = dc;
}

cudaLaunchConfig_t config_of(const Steps& s, cudaLaunchAttribute& cluster, cudaStream_t stream) {
  const unsigned blocks = blocks_for(s.hidden, kUnits);
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {blocks, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks, blocks_for(s.sequences, kSequences));
  config.blockDim = kThreads;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  return config;
}

template <class Kernel>
bool runs(Kernel* kernel, const Steps& steps) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
        "cudaFuncSetAttribute");
  cudaLaunchAttribute cluster{};
  const cudaLaunchConfig_t config = config_of(steps, cluster, nullptr);
  int clusters = 0;
  check(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config),
        "cudaOccupancyMaxActiveClusters");
  return clusters > 0;
}

}  // namespace

template <class F>
bool prepare_lstm_clusters(const Steps& steps, const Context& context) {
  constexpr std::int64_t kMostClusters = 65535;
  return steps.hidden <= kMostHidden && steps.sequences <= kMostClusters * kSequences &&
         context.cluster_blocks > 1 && runs(move_through<F>, steps) &&
         runs(move_back_through<F>, steps);
}

template <class F>
void launch_lstm_clusters(const Steps& steps, const Forward<float>& forward, const F& functions,
                          const float* from, float* to, cudaStream_t stream) {
  cudaLaunchAttribute cluster{};
  const cudaLaunchConfig_t config = config_of(steps, cluster, stream);
  check(cudaLaunchKernelEx(&config, move_through<F>, steps, forward, functions, from, to), "lstm");
}

template <class F>
void launch_lstm_gradient_clusters(const Steps& steps, const Backward<float>& backward,
                                   const F& functions, cudaStream_t stream) {
  cudaLaunchAttribute cluster{};
  const cudaLaunchConfig_t config = config_of(steps, cluster, stream);
  check(cudaLaunchKernelEx(&config, move_back_through<F>, steps, backward, functions),
        "lstm_gradient");
}

#define TRAINGRAPH_LSTM_CLUSTERS(F)                                                              \
  template bool prepare_lstm_clusters<F>(const Steps&, const Context&);                          \
  template void launch_lstm_clusters<F>(const Steps&, const Forward<float>&, const F&,           \
                                        const float*, float*, cudaStream_t);                     \
  template void launch_lstm_gradient_clusters<F>(const Steps&, const Backward<float>&, const F&, \
                                                 cudaStream_t);
TRAINGRAPH_LSTM_CLUSTERS(UsualFunctions<float>)
TRAINGRAPH_LSTM_CLUSTERS(AnyFunctions<float>)
#undef TRAINGRAPH_LSTM_CLUSTERS

}  // namespace traingraph::cuda
