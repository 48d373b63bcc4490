// Attention and its gradient over tiles of queries and keys. Scores are never stored: a block
// iterates over the keys of its queries with an online softmax, or over the queries of its keys
// with the two numbers per query that the forward op kept. Every sum has a fixed order. These
// kernels, without tensor cores, serve float64 and very large heads.
#include "backends/cuda/products/attention_kernel.h"
#include "backends/cuda/products/tensor_core_attention.h"

namespace traingraph::cuda {
namespace {

// Blocks have (kSide, kSide) threads. Thread (row, lane) works on row `row` of the block's tile. A
// lane keeps the sums of features lane, lane + kSide, … of a chunk of kChunk.
constexpr int kSums = kChunk / kSide;

template <class T>
struct Sums {
  T of[kSums];

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < kSums; ++i) of[i] = T(0);
  }
  __device__ void scale(T factor) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) of[i] *= factor;
  }
  // Adds Σ weights[j] rows[j][lane + …] over the tile's rows. Each tile has a partial sum, so that
  // rounding does not grow with the number of keys.
  __device__ void add(const T* weights, const T (*rows)[kTileRow], int count, int lane) {
    T tile[kSums] = {};
    for (int j = 0; j < count; ++j) {
      const T weight = weights[j];
#pragma unroll
      for (int i = 0; i < kSums; ++i) tile[i] += weight * rows[j][lane + i * kSide];
    }
#pragma unroll
    for (int i = 0; i < kSums; ++i) of[i] += tile[i];
  }
};

// Largest and Σ e^(score - largest) of a query, of all lanes.
template <class T>
__device__ T over_lanes(T value, bool largest) {
#pragma unroll
  for (int distance = kSide / 2; distance > 0; distance /= 2) {
    const T other = __shfl_xor_sync(0xffffffffu, value, distance, kSide);
    value = largest ? (value < other ? other : value) : value + other;
  }
  return value;
}

template <class S>
__global__ void __launch_bounds__(kSide* kSide)
    attend(const __grid_constant__ AttentionTask<S> task, Rows<S> y, Compute<S>* largest_scores,
           Compute<S>* logarithms) {
  using T = Compute<S>;
  __shared__ Tile<T> left, right;
  __shared__ T weights[kSide][kSide + 1];
  const int row = static_cast<int>(threadIdx.y), lane = static_cast<int>(threadIdx.x);
  const Place at = task.place(kSide, task.queries);
  const std::int64_t query = at.first + row;
  const T lowest = -infinity<T>();
  // One chunk of features at a time, whose sums stay in registers. Each chunk computes the scores
  // again.
  for (std::int64_t chunk = 0; chunk < task.features; chunk += kChunk) {
    T largest = lowest, total = T(0);
    Sums<T> sums;
    sums.clear();
    for (std::int64_t key = 0; key < task.keys; key += kSide) {
      const int keys = task.here(task.keys - key);
      const T product =
          task.dot(at, task.q, task.queries, at.first, task.k, task.keys, key, left, right);
      const T score = task.score(at, query, key + lane, product);
      const T top = over_lanes(score, true);
      const T before = largest;
      if (largest < top) largest = top;
      // All scores may be -inf so far, but not those of the next tile.
      const T shift = largest == lowest ? T(0) : largest;
      const T factor = before < largest ? ::exp(before - shift) : T(1);
      const T power = ::exp(score - shift);
      total = total * factor + over_lanes(power, false);
      sums.scale(factor);
      weights[row][lane] = power * task.left(at, query, key + lane);
      task.fetch(at, task.v, task.keys, key, chunk, right);
      __syncthreads();
      sums.add(weights[row], right.of, keys, lane);
      __syncthreads();
    }
    if (query >= task.queries) continue;
    // If every key is masked, the result is zeros and the largest score infinity, so that the
    // gradient computes e^(-inf - inf).
    const bool masked = total == T(0);
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const std::int64_t c = chunk + lane + i * kSide;
      if (c < task.features) {
        task.head(at, y, task.queries, query)[c] = narrow<S>(masked ? T(0) : sums.of[i] / total);
      }
    }
    if (chunk == 0 && lane == 0) {
      largest_scores[task.row_number(at, query)] = masked ? infinity<T>() : largest;
      logarithms[task.row_number(at, query)] = masked ? T(0) : ::log(total);
    }
  }
}

// Numbers that all probabilities of a query share.
template <class T>
struct Known {
  T largest, logarithm, mean;
};

// Σ dy y, and what the forward op kept of a query, by the lanes of its row; zeros beyond the last
// query.
template <class S>
__device__ Known<Compute<S>> known_of(const AttentionTask<S>& task, const Slopes<S>& slopes,
                                      const Place& at, std::int64_t query, int lane) {
  using T = Compute<S>;
  T mean = T(0);
  const bool there = query < task.queries;
  if (there) {
    const S* const dy = task.head(at, slopes.dy, task.queries, query);
    const S* const y = task.head(at, slopes.y, task.queries, query);
    for (std::int64_t c = lane; c < task.features; c += kSide) mean += widen(dy[c]) * widen(y[c]);
  }
  mean = over_lanes(mean, false);
  if (!there) return {T(0), T(0), mean};
  const std::int64_t number = task.row_number(at, query);
  return {slopes.largest[number], slopes.logarithm[number], mean};
}

// The probability after dropout, and the gradient of the score.
template <class T>
struct Slope {
  T share, score;
};

template <class S>
__device__ Slope<Compute<S>> slope_of(const AttentionTask<S>& task, const Place& at,
                                      std::int64_t query, std::int64_t key, Compute<S> product,
                                      Compute<S> dp, Known<Compute<S>> known) {
  using T = Compute<S>;
  if (query >= task.queries || key >= task.keys) return {T(0), T(0)};
  const T p = ::exp(task.score(at, query, key, product) - known.largest - known.logarithm);
  const T left = task.left(at, query, key);
  return {p * left, p * (left * dp - known.mean)};
}

// dq, by tiles of queries.
template <class S>
__global__ void __launch_bounds__(kSide* kSide)
    slope_of_queries(const __grid_constant__ AttentionTask<S> task,
                     const __grid_constant__ Slopes<S> slopes) {
  using T = Compute<S>;
  __shared__ Tile<T> left, right;
  __shared__ T weights[kSide][kSide + 1];
  const int row = static_cast<int>(threadIdx.y), lane = static_cast<int>(threadIdx.x);
  const Place at = task.place(kSide, task.queries);
  const std::int64_t query = at.first + row;
  const Known<T> known = known_of(task, slopes, at, query, lane);
  for (std::int64_t chunk = 0; chunk < task.features; chunk += kChunk) {
    Sums<T> sums;
    sums.clear();
    for (std::int64_t key = 0; key < task.keys; key += kSide) {
      const T product =
          task.dot(at, task.q, task.queries, at.first, task.k, task.keys, key, left, right);
      const T dp =
          task.dot(at, slopes.dy, task.queries, at.first, task.v, task.keys, key, left, right);
      weights[row][lane] =
          slope_of(task, at, query, key + lane, product, dp, known).score * task.scale;
      task.fetch(at, task.k, task.keys, key, chunk, right);
      __syncthreads();
      sums.add(weights[row], right.of, task.here(task.keys - key), lane);
      __syncthreads();
    }
    task.put(at, slopes.dq, task.queries, query, chunk, sums.of, lane);
  }
}

// dk and dv, by tiles of keys. Rows of the block are keys here, and lanes are queries.
template <class S>
__global__ void __launch_bounds__(kSide* kSide)
    slope_of_keys(const __grid_constant__ AttentionTask<S> task,
                  const __grid_constant__ Slopes<S> slopes) {
  using T = Compute<S>;
  __shared__ Tile<T> left, right;
  __shared__ T shares[kSide][kSide + 1], scores[kSide][kSide + 1];
  __shared__ Known<T> known[kSide];
  const int row = static_cast<int>(threadIdx.y), lane = static_cast<int>(threadIdx.x);
  const Place at = task.place(kSide, task.keys);
  const std::int64_t key = at.first + row;
  for (std::int64_t chunk = 0; chunk < task.features; chunk += kChunk) {
    Sums<T> of_key, of_value;
    of_key.clear();
    of_value.clear();
    for (std::int64_t query = 0; query < task.queries; query += kSide) {
      const int queries = task.here(task.queries - query);
      const Known<T> own = known_of(task, slopes, at, query + row, lane);
      if (lane == 0) known[row] = own;
      const T product =
          task.dot(at, task.k, task.keys, at.first, task.q, task.queries, query, left, right);
      const T dp =
          task.dot(at, task.v, task.keys, at.first, slopes.dy, task.queries, query, left, right);
      const Slope<T> slope = slope_of(task, at, query + lane, key, product, dp, known[lane]);
      shares[row][lane] = slope.share;
      scores[row][lane] = slope.score * task.scale;
      task.fetch(at, task.q, task.queries, query, chunk, left);
      task.fetch(at, slopes.dy, task.queries, query, chunk, right);
      __syncthreads();
      of_key.add(scores[row], left.of, queries, lane);
      of_value.add(shares[row], right.of, queries, lane);
      __syncthreads();
    }
    task.put(at, slopes.dk, task.keys, key, chunk, of_key.of, lane);
    task.put(at, slopes.dv, task.keys, key, chunk, of_value.of, lane);
  }
}

// dmask, by tiles of queries and keys: the sum over samples and heads if they share the mask.
template <class S>
__global__ void __launch_bounds__(kSide* kSide)
    slope_of_mask(const __grid_constant__ AttentionTask<S> task,
                  const __grid_constant__ Slopes<S> slopes) {
  using T = Compute<S>;
  __shared__ Tile<T> left, right;
  const int row = static_cast<int>(threadIdx.y), lane = static_cast<int>(threadIdx.x);
  const std::int64_t tile = blockIdx.x;
  const std::int64_t masked = tiles_of(task.masked_keys), across = tiles_of(task.queries);
  const std::int64_t key = tile % masked * kSide;
  const std::int64_t queries = tile / masked % across * kSide;
  const std::int64_t matrix = tile / masked / across;
  const bool shared = task.mask_rows == 1;
  const std::int64_t end = shared ? task.samples * task.heads : matrix + 1;
  T sum = T(0);
  for (std::int64_t head = shared ? 0 : matrix; head < end; ++head) {
    const Place at{head / task.heads, head % task.heads, queries};
    const Known<T> known = known_of(task, slopes, at, queries + row, lane);
    const T product =
        task.dot(at, task.q, task.queries, queries, task.k, task.keys, key, left, right);
    const T dp =
        task.dot(at, slopes.dy, task.queries, queries, task.v, task.keys, key, left, right);
    sum += slope_of(task, at, queries + row, key + lane, product, dp, known).score;
  }
  if (queries + row >= task.queries || key + lane >= task.masked_keys) return;
  slopes.dmask[(matrix * task.queries + queries + row) * task.masked_keys + key + lane] = sum;
}

template <class S>
class PlainAttention final : public AttentionKernel<S> {
 public:
  PlainAttention(const ir::Graph& graph, const ir::Node& node, const Context&)
      : AttentionKernel<S>(graph, node) {}

  void launch(Pointers pointers, cudaStream_t stream) const override {
    const AttentionTask<S> task = this->bound(pointers);
    const dim3 threads(kSide, kSide);
    const std::int64_t heads = this->heads();
    const auto blocks = [](std::int64_t matrices, std::int64_t rows) {
      return static_cast<unsigned>(matrices * tiles_of(rows));
    };
    if (!this->is_gradient_) {
      attend<S><<<blocks(heads, task.queries), threads, 0, stream>>>(
          task, this->result(pointers), this->template out<Compute<S>>(pointers, 1),
          this->template out<Compute<S>>(pointers, 2));
      check_launch("attention");
      return;
    }
    const Slopes<S> slopes = this->slopes(pointers);
    slope_of_queries<S><<<blocks(heads, task.queries), threads, 0, stream>>>(task, slopes);
    check_launch("attention_gradient");
    slope_of_keys<S><<<blocks(heads, task.keys), threads, 0, stream>>>(task, slopes);
    check_launch("attention_gradient");
    if (slopes.dmask == nullptr) return;
    slope_of_mask<S>
        <<<blocks(task.mask_rows * tiles_of(task.masked_keys), task.queries), threads, 0, stream>>>(
            task, slopes);
    check_launch("attention_gradient");
  }
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const ir::AttentionOperands at(std::get<ir::AttentionAttributes>(node.attributes),
                                 node.op == ir::Op::attention_gradient, node.inputs.size());
  if (is_floating_point(graph.type(node.inputs[at.q]).data_type)) return {};
  return Support::no("attention of elements that are no floating-point numbers");
}

template <class S, bool kFull>
std::unique_ptr<Kernel> make_of(const ir::Graph& graph, const ir::Node& node,
                                const Context& context) {
  if constexpr (sizeof(S) == 2) {
    if (auto made = make_pipelined_attention<S>(graph, node, context)) return made;
  }
  if (auto made = make_tensor_core_attention<S, kFull>(graph, node, context)) return made;
  return std::make_unique<PlainAttention<S>>(graph, node, context);
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context& context) {
  const bool tf32 = std::get<ir::AttentionAttributes>(node.attributes).tf32;
  switch (graph.type(node.inputs[0]).data_type) {
    case DataType::kFloat16:
      return make_of<__half, false>(graph, node, context);
    case DataType::kBFloat16:
      return make_of<__nv_bfloat16, false>(graph, node, context);
    case DataType::kFloat64:
      return std::make_unique<PlainAttention<double>>(graph, node, context);
    default:
      return tf32 ? make_of<float, false>(graph, node, context)
                  : make_of<float, true>(graph, node, context);
  }
}

}  // namespace

std::vector<KernelEntry> attention_entries() {
  return {{ir::Op::attention, supports, make}, {ir::Op::attention_gradient, supports, make}};
}

}  // namespace traingraph::cuda
