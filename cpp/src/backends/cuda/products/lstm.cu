// LSTMs: all steps in one kernel (lstm_clusters.h) where a cluster of blocks has room for the
// weights, else one kernel per step, which multiplies the hidden states by the weights and updates
// the cells. There a block has kSide sequences times kSide units, a thread each, and every sum has
// a fixed order.
#include "backends/cuda/kernel/node_kernel.h"
#include "backends/cuda/products/lstm_clusters.h"

namespace traingraph::cuda {
namespace {

using ir::LstmAttributes;
using ir::LstmOperands;

constexpr int kSide = 16, kDepth = 32;
static_assert(kSide * kSide == kThreads);

// The sequence and the unit of a thread, and the first ones of its block.
struct Place {
  int thread = static_cast<int>(threadIdx.x);
  std::int64_t first_sequence = std::int64_t{blockIdx.y} * kSide;
  std::int64_t first_unit = std::int64_t{blockIdx.x} * kSide;
  std::int64_t sequence = first_sequence + thread / kSide;
  std::int64_t unit = first_unit + thread % kSide;
};

// Sets `refused` unless the lengths descend from at most `steps` to at least 0.
__global__ void __launch_bounds__(kThreads)
    check_lengths(const std::int32_t* lengths, std::int64_t count, std::int64_t steps,
                  int* refused) {
  int wrong = 0;
  for (std::int64_t n = threadIdx.x; n < count; n += kThreads) {
    const std::int64_t most = n == 0 ? steps : lengths[n - 1];
    if (lengths[n] < 0 || lengths[n] > most) wrong = 1;
  }
  wrong = __syncthreads_or(wrong);
  if (threadIdx.x == 0) *refused = wrong;
}

// The k-th step: h `from`, null for zeros, → h `to`.
template <class T, class F>
__global__ void __launch_bounds__(kThreads)
    move(const __grid_constant__ Steps s, const __grid_constant__ Forward<T> f,
         const __grid_constant__ F functions, std::int64_t k, const T* from, T* to) {
  __shared__ T states[kSide][kDepth + 1];
  __shared__ T weights[4 * kSide][kDepth + 1];
  const auto [thread, first_sequence, first_unit, sequence, unit] = Place();
  const std::int64_t hidden = s.hidden;
  LstmStep<T> step{};
  for (std::int64_t depth = 0; depth < hidden; depth += kDepth) {
    const std::int64_t column = depth + thread % kDepth;
    for (int row = thread / kDepth; row < kSide; row += kThreads / kDepth) {
      const bool inside = first_sequence + row < s.sequences && column < hidden;
      states[row][thread % kDepth] =
          inside && from != nullptr ? from[(first_sequence + row) * hidden + column] : T(0);
    }
    for (int row = thread / kDepth; row < 4 * kSide; row += kThreads / kDepth) {
      const std::int64_t own = first_unit + row % kSide;
      const bool inside = own < hidden && column < hidden;
      weights[row][thread % kDepth] =
          inside ? f.weights[(row / kSide * hidden + own) * hidden + column] : T(0);
    }
    __syncthreads();
    // Columns beyond the last are 0 in both operands and are not summed.
    const int count = static_cast<int>(hidden - depth < kDepth ? hidden - depth : kDepth);
    for (int i = 0; i < count; ++i) {
      const T state = states[thread / kSide][i];
#pragma unroll
      for (int gate = 0; gate < 4; ++gate) {
        step.gates[gate] += state * weights[gate * kSide + thread % kSide][i];
      }
    }
    __syncthreads();
  }
  if (sequence >= s.sequences || unit >= hidden) return;

  const std::int64_t own = sequence * hidden + unit, row = s.row(sequence, k);
  const T found = from != nullptr ? from[own] : T(0);
  step.cell = k > 0 ? f.cell[own] : (f.cell_from != nullptr ? f.cell_from[own] : T(0));
  T inputs[4];
#pragma unroll
  for (int gate = 0; gate < 4; ++gate) {
    inputs[gate] = f.inputs[row * 4 * hidden + gate * hidden + unit];
  }
  step.run(s, f, functions, sequence, unit, k, inputs, found);
  step.store(s, f, sequence, unit, k);
  to[own] = step.state;
  f.cell[own] = step.cell;
}

// The gradient of the k-th step, after that of step k + 1; for k = -1 only dh.
template <class T, class F>
__global__ void __launch_bounds__(kThreads)
    move_back(const __grid_constant__ Steps s, const __grid_constant__ Backward<T> b,
              const __grid_constant__ F functions, std::int64_t k) {
  __shared__ T slopes[kSide][kDepth + 1];
  __shared__ T weights[kDepth][kSide + 1];
  const auto [thread, first_sequence, first_unit, sequence, unit] = Place();
  const std::int64_t hidden = s.hidden;
  const bool is_last = k + 1 == s.steps;
  T dh = T(0);
  for (std::int64_t depth = 0; !is_last && depth < 4 * hidden; depth += kDepth) {
    for (int row = thread / kDepth; row < kSide; row += kThreads / kDepth) {
      const std::int64_t column = depth + thread % kDepth;
      const bool inside = first_sequence + row < s.sequences && column < 4 * hidden;
      slopes[row][thread % kDepth] =
          inside ? b.gates_gradient[s.row(first_sequence + row, k + 1) * 4 * hidden + column]
                 : T(0);
    }
    for (int row = thread / kSide; row < kDepth; row += kThreads / kSide) {
      const bool inside = depth + row < 4 * hidden && unit < hidden;
      weights[row][thread % kSide] = inside ? b.weights[(depth + row) * hidden + unit] : T(0);
    }
    __syncthreads();
    const int count = static_cast<int>(4 * hidden - depth < kDepth ? 4 * hidden - depth : kDepth);
    for (int i = 0; i < count; ++i) dh += slopes[thread / kSide][i] * weights[i][thread % kSide];
    __syncthreads();
  }
  if (sequence >= s.sequences || unit >= hidden) return;

  const std::int64_t own = sequence * hidden + unit;
  T dc = b.cell_gradient[own];
  if (is_last) {
    dh = b.hidden_gradient != nullptr ? b.hidden_gradient[own] : T(0);
    dc = b.last_cell_gradient != nullptr ? b.last_cell_gradient[own] : T(0);
  } else if (!s.reaches(sequence, k + 1)) {
    dh = b.states[own];
  }
  b.states[own] = dh;
  if (k < 0) return;
  Kept<T> kept;
  kept.load(s, b, sequence, unit, k);
  T gradients[4];
  step_back(s, b, functions, sequence, unit, k, kept, dh, dc, gradients);
  store_gradients(s, b, sequence, unit, k, gradients);
  b.cell_gradient[own] = dc;
}

template <class T>
class LstmKernel : public NodeKernel {
 public:
  LstmKernel(const ir::Graph& graph, const ir::Node& node, const LstmOperands& operands,
             ir::ValueId gates)
      : NodeKernel(graph, node),
        attributes_(std::get<LstmAttributes>(node.attributes)),
        operands_(operands) {
    const Shape& shape = graph.type(gates).shape;
    const bool time_first = attributes_.time_first;
    steps_ = {shape[time_first ? 1 : 0],
              shape[time_first ? 0 : 1],
              shape[2] / 4,
              time_first,
              attributes_.reverse,
              nullptr,
              nullptr};
  }

  std::size_t workspace_bytes() const override { return kFlagBytes; }

 protected:
  static constexpr std::size_t kFlagBytes = 16;

  template <class V = T>
  const V* given(Pointers pointers, int operand) const {
    return operand < 0 ? nullptr : in<V>(pointers, static_cast<std::size_t>(operand));
  }
  dim3 blocks() const {
    return dim3(blocks_for(steps_.hidden, kSide), blocks_for(steps_.sequences, kSide));
  }
  // The steps with their lengths, which are checked first.
  Steps bound(Pointers pointers, cudaStream_t stream) const {
    Steps steps = steps_;
    steps.lengths = given<std::int32_t>(pointers, operands_.lengths);
    if (steps.lengths == nullptr) return steps;
    int* const refused = workspace<int>(pointers);
    check_lengths<<<1, kThreads, 0, stream>>>(steps.lengths, steps.sequences, steps.steps, refused);
    steps.refused = refused;
    return steps;
  }

  LstmAttributes attributes_;
  LstmOperands operands_;
  Steps steps_{};
};

template <class T, class F>
bool fits_clusters(const Steps& steps, const Context& context) {
  if constexpr (std::is_same_v<T, float>) {
    return steps.sequences > 0 && steps.hidden > 0 && prepare_lstm_clusters<F>(steps, context);
  }
  return false;
}

template <class T, class F>
class Lstm final : public LstmKernel<T> {
 public:
  Lstm(const ir::Graph& graph, const ir::Node& node, const Context& context)
      : LstmKernel<T>(graph, node,
                      LstmOperands::of_forward(std::get<LstmAttributes>(node.attributes)),
                      node.inputs[0]),
        functions_(this->attributes_),
        in_clusters_(fits_clusters<T, F>(this->steps_, context)) {}

  // Two hidden states after the flag.
  std::size_t workspace_bytes() const override {
    return this->kFlagBytes + 2 * static_cast<std::size_t>(states()) * sizeof(T);
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (states() == 0) return;
    const Steps steps = this->bound(pointers, stream);
    const LstmOperands& o = this->operands_;
    Forward<T> f{};
    f.inputs = this->given(pointers, 0);
    f.weights = this->given(pointers, o.weights);
    f.peepholes = this->given(pointers, o.peepholes);
    f.cell_from = this->given(pointers, o.cell);
    f.result = this->template out<T>(pointers, 0);
    f.cell = this->template out<T>(pointers, 2);
    if (this->attributes_.keeps) {
      f.gates = this->template out<T>(pointers, 3);
      f.found_hidden = this->template out<T>(pointers, 4);
      f.found_cells = this->template out<T>(pointers, 5);
      if (f.peepholes != nullptr) f.moved_cells = this->template out<T>(pointers, 6);
    }
    if constexpr (std::is_same_v<T, float>) {
      if (in_clusters_) {
        return launch_lstm_clusters(steps, f, functions_, this->given(pointers, o.hidden),
                                    this->template out<T>(pointers, 1), stream);
      }
    }
    T* const between =
        reinterpret_cast<T*>(this->template workspace<std::byte>(pointers) + this->kFlagBytes);
    const T* from = this->given(pointers, o.hidden);
    for (std::int64_t k = 0; k < steps.steps; ++k) {
      T* const to =
          k + 1 == steps.steps ? this->template out<T>(pointers, 1) : between + k % 2 * states();
      move<T, F><<<this->blocks(), kThreads, 0, stream>>>(steps, f, functions_, k, from, to);
      from = to;
    }
    check_launch("lstm");
  }

 private:
  std::int64_t states() const { return this->steps_.sequences * this->steps_.hidden; }

  F functions_;
  bool in_clusters_;
};

template <class T, class F>
class LstmGradient final : public LstmKernel<T> {
 public:
  LstmGradient(const ir::Graph& graph, const ir::Node& node, const Context& context)
      : LstmKernel<T>(graph, node,
                      LstmOperands::of_gradient(std::get<LstmAttributes>(node.attributes)),
                      node.outputs[0]),
        functions_(this->attributes_),
        in_clusters_(fits_clusters<T, F>(this->steps_, context)) {}

  void launch(Pointers pointers, cudaStream_t stream) const override {
    const Steps steps = this->bound(pointers, stream);
    if (steps.sequences * steps.hidden == 0) return;
    const LstmOperands& o = this->operands_;
    const Backward<T> b{
        this->given(pointers, o.weights),       this->given(pointers, o.peepholes),
        this->given(pointers, o.all_gradient),  this->given(pointers, o.hidden_gradient),
        this->given(pointers, o.cell_gradient), this->given(pointers, o.gates),
        this->given(pointers, o.found_cells),   this->template out<T>(pointers, 0),
        this->template out<T>(pointers, 1),     this->template out<T>(pointers, 2)};
    if constexpr (std::is_same_v<T, float>) {
      if (in_clusters_) return launch_lstm_gradient_clusters(steps, b, functions_, stream);
    }
    for (std::int64_t k = steps.steps - 1; k >= -1; --k) {
      move_back<T, F><<<this->blocks(), kThreads, 0, stream>>>(steps, b, functions_, k);
    }
    check_launch("lstm_gradient");
  }

 private:
  F functions_;
  bool in_clusters_;
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const auto& a = std::get<LstmAttributes>(node.attributes);
  if (!AnyFunctions<double>::fits(a)) return Support::no("functions of many instructions");
  // The gates or the result; both have the sequences.
  const Shape& shape = graph.type(node.outputs[0]).shape;
  if (shape[a.time_first ? 1 : 0] > std::int64_t{65535} * kSide) {
    return Support::no("more than 2^20 sequences");
  }
  return supports_floating(graph, node);
}

template <template <class, class> class K, class T>
std::unique_ptr<Kernel> make_of(const ir::Graph& graph, const ir::Node& node,
                                const Context& context) {
  if (UsualFunctions<T>::fits(std::get<LstmAttributes>(node.attributes))) {
    return std::make_unique<K<T, UsualFunctions<T>>>(graph, node, context);
  }
  return std::make_unique<K<T, AnyFunctions<T>>>(graph, node, context);
}

template <template <class, class> class K>
std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context& context) {
  const bool is_double = compute_type(graph, node) == DataType::kFloat64;
  return (is_double ? make_of<K, double> : make_of<K, float>)(graph, node, context);
}

}  // namespace

std::vector<KernelEntry> lstm_entries() {
  return {{ir::Op::lstm, supports, make<Lstm>, nullptr, nullptr},
          {ir::Op::lstm_gradient, supports, make<LstmGradient>, nullptr, nullptr}};
}

}  // namespace traingraph::cuda
