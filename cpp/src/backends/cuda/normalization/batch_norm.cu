// Over 400 lines: the op and its gradient share a plan, partial sums and the choice of kernels.
// Batch normalization per channel and its gradient, over tensors (N, C, …) seen as (N, C, S). Sums
// per channel are split by shape and added in a fixed order in float64. There are two launches:
// partial sums, then each block adds the partial sums of its channel and writes its share of the
// result. For channels of few elements one launch does both.
#include "backends/cuda/convolution/layouts.h"
#include "backends/cuda/device/device.h"
#include "backends/cuda/normalization/batch_norm.h"
#include "runtime/table_backend.h"

namespace traingraph::cuda {
namespace {

constexpr int kMostParts = 32;  // a warp adds them
constexpr std::int64_t kBlocksWanted = 4096;
constexpr std::int64_t kMostAlone = 4096;  // elements of a channel that one block serves

struct Plan {
  std::int64_t channels, run, count;  // C, S, N S
  std::int64_t parts, length;         // of each channel's elements
  Divider by_run;
  double epsilon;
  bool narrow;               // fewer than 2^31 elements
  const std::int64_t* rows;  // how many of the N count, the first ones; null: all

  // Elements of a channel that count.
  __device__ std::int64_t counted() const { return rows == nullptr ? count : *rows * run; }

  // The offset of element k of a channel.
  __device__ std::int64_t offset(std::int64_t channel, std::int64_t k) const {
    if (narrow) {
      auto n = static_cast<std::uint32_t>(k);
      const std::uint32_t s = by_run.split_narrow(n);
      return (n * static_cast<std::uint32_t>(channels) + static_cast<std::uint32_t>(channel)) *
                 static_cast<std::uint32_t>(run) +
             s;
    }
    std::int64_t n = k;
    const std::int64_t s = by_run.split(n);
    return (n * channels + channel) * run + s;
  }

  template <class T>
  __device__ T pivot(const T* x, std::int64_t channel) const {
    const std::int64_t counts = counted();
    return pivot_of(x[offset(channel, 0)], x[offset(channel, counts / 2)],
                    x[offset(channel, counts - 1)]);
  }
};

struct Pair {
  double a, b;
};

// The work of a block: one part of a channel's first `count` elements.
struct Share {
  std::int64_t channel, part, first, last;

  __device__ Share(const Plan& plan, std::int64_t count)
      : channel(blockIdx.x / plan.parts),
        part(blockIdx.x % plan.parts),
        first(part * plan.length),
        last(first + plan.length < count ? first + plan.length : count) {}
};

// Adds pairs over the block; thread 0 writes them to partial (C, parts).
__device__ void put(const Plan& plan, const Share& share, Pair sum, Pair* partial) {
  const double a = combine<kThreads>(sum.a, Sum());
  const double b = combine<kThreads>(sum.b, Sum());
  if (threadIdx.x == 0) partial[share.channel * plan.parts + share.part] = {a, b};
}

// The sums of a channel, for every thread of a block: of `own` parts of its threads, or of those
// that an earlier launch has put.
template <bool kAlone, class F>
__device__ Pair sums_of_channel(const Plan& plan, std::int64_t channel, const Pair* partial,
                                F&& own) {
  if constexpr (kAlone) {
    const Pair sum = own();
    return {combine<kThreads>(sum.a, Sum()), combine<kThreads>(sum.b, Sum())};
  } else {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    Pair sum = {0, 0};
    if (lane < plan.parts) sum = partial[channel * plan.parts + lane];
    return {combine<32>(sum.a, Sum()), combine<32>(sum.b, Sum())};
  }
}

// This thread's part of a share's sum and sum of squares of x minus the channel's pivot.
template <class T, int kPack>
__device__ Pair moments_of(const Plan& plan, const Share& share, const T* x) {
  const T shift = plan.pivot(x, share.channel);
  Pair sum = {0, 0};
#pragma unroll(kPack == 1 ? 4 : 2)
  for (std::int64_t k = share.first + threadIdx.x * kPack; k < share.last; k += kThreads * kPack) {
    const auto pack = load<kPack>(x + plan.offset(share.channel, k));
    T part = T(0), squares = T(0);
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      const T difference = pack.element[v] - shift;
      part += difference;
      squares += difference * difference;
    }
    sum.a += static_cast<double>(part);
    sum.b += static_cast<double>(squares);
  }
  if (too_large<T>(sum.b)) {
    sum = {0, 0};
    for (std::int64_t k = share.first + threadIdx.x * kPack; k < share.last;
         k += kThreads * kPack) {
      const auto pack = load<kPack>(x + plan.offset(share.channel, k));
      for (int v = 0; v < kPack; ++v) add_square(pack.element[v], shift, sum.a, sum.b);
    }
  }
  return sum;
}

template <class T, int kPack>
__global__ void __launch_bounds__(kThreads)
    moments(const __grid_constant__ Plan plan, const T* x, Pair* partial) {
  const Share share(plan, plan.counted());
  put(plan, share, moments_of<T, kPack>(plan, share, x), partial);
}

// kAlone: the block computes its channel's sums itself.
template <class T, int kPack, int kEpilogue, bool kAlone>
__global__ void __launch_bounds__(kThreads)
    normalize(const __grid_constant__ Plan plan, Normalized<T> a, const Pair* partial) {
  const Share share(plan, plan.count);
  const std::int64_t c = share.channel;
  Coefficients<T> of;
  if (a.given != nullptr) {
    of = a.given[c];
  } else {
    const Pair sum = sums_of_channel<kAlone>(plan, c, partial, [&] {
      return moments_of<T, kPack>(plan, Share(plan, plan.counted()), a.x);
    });
    const double sums[] = {sum.a, sum.b};
    const Moments found(sums, static_cast<double>(plan.pivot(a.x, c)), plan.counted(),
                        plan.epsilon);
    of = found.coefficients(a.gamma[c], a.beta[c], false);
    if (share.part == 0 && threadIdx.x == 0) found.write(a, c, of);
  }
#pragma unroll(kPack == 1 ? 4 : 2)
  for (std::int64_t k = share.first + threadIdx.x * kPack; k < share.last; k += kThreads * kPack) {
    const std::int64_t at = plan.offset(c, k);
    auto pack = load<kPack>(a.x + at);
    Pack<T, kPack> added = {};
    if constexpr ((kEpilogue & kAdds) != 0) {
      added = load<kPack>(a.added + at);
    }
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      pack.element[v] = apply_epilogue<kEpilogue>(of.y(pack.element[v]), added.element[v]);
    }
    store(a.y + at, pack);
  }
}

// dy, with the prologue relu_gradient(dy, result).
template <class T, int kPack, bool kRelu>
__device__ Pack<T, kPack> masked(const Gradients<T>& a, std::int64_t at) {
  auto dy = load<kPack>(a.dy + at);
  if constexpr (kRelu) {
    const auto result = load<kPack>(a.result + at);
#pragma unroll
    for (int v = 0; v < kPack; ++v)
      dy.element[v] = result.element[v] <= T(0) ? T(0) : dy.element[v];
  }
  return dy;
}

// This thread's part of a share's dbeta and dgamma.
template <class T, int kPack, bool kRelu>
__device__ Pair gradient_sums_of(const Plan& plan, const Share& share, const Gradients<T>& a) {
  const T mean = a.mean[share.channel], inverse_deviation = a.inverse_deviation[share.channel];
  Pair sum = {0, 0};
#pragma unroll(kPack == 1 ? 4 : 2)
  for (std::int64_t k = share.first + threadIdx.x * kPack; k < share.last; k += kThreads * kPack) {
    const std::int64_t at = plan.offset(share.channel, k);
    const auto dy = masked<T, kPack, kRelu>(a, at);
    const auto x = load<kPack>(a.x + at);
    T part = T(0), products = T(0);
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      part += dy.element[v];
      products += dy.element[v] * ((x.element[v] - mean) * inverse_deviation);
    }
    sum.a += static_cast<double>(part);
    sum.b += static_cast<double>(products);
  }
  return sum;
}

template <class T, int kPack, bool kRelu>
__global__ void __launch_bounds__(kThreads)
    gradient_sums(const __grid_constant__ Plan plan, Gradients<T> a, Pair* partial) {
  const Share share(plan, plan.counted());
  put(plan, share, gradient_sums_of<T, kPack, kRelu>(plan, share, a), partial);
}

template <class T, int kPack, bool kRelu, bool kAlone>
__global__ void __launch_bounds__(kThreads)
    gradient_apply(const __grid_constant__ Plan plan, Gradients<T> a, const Pair* partial) {
  const Share share(plan, plan.count);
  const std::int64_t c = share.channel;
  const Pair sum = sums_of_channel<kAlone>(plan, c, partial, [&] {
    return gradient_sums_of<T, kPack, kRelu>(plan, Share(plan, plan.counted()), a);
  });
  if (share.part == 0 && threadIdx.x == 0) {
    a.dbeta[c] = static_cast<T>(sum.a);
    a.dgamma[c] = static_cast<T>(sum.b);
  }
  const T mean = a.mean[c], inverse_deviation = a.inverse_deviation[c];
  const T scale = a.gamma[c] * inverse_deviation;
  const std::int64_t counted = plan.counted();
  const T dbeta = static_cast<T>(sum.a / static_cast<double>(counted));
  const T dgamma = static_cast<T>(sum.b / static_cast<double>(counted));
#pragma unroll(kPack == 1 ? 4 : 2)
  for (std::int64_t k = share.first + threadIdx.x * kPack; k < share.last; k += kThreads * kPack) {
    const std::int64_t at = plan.offset(c, k);
    auto dy = masked<T, kPack, kRelu>(a, at);
    const auto x = load<kPack>(a.x + at);
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      const T z = (x.element[v] - mean) * inverse_deviation;
      dy.element[v] = k < counted ? scale * (dy.element[v] - (dbeta + z * dgamma)) : T(0);
    }
    store(a.dx + at, dy);
  }
}

template <class T>
class BatchNorm final : public NodeKernel {
 public:
  BatchNorm(const ir::Graph& graph, const ir::Node& node, const Context&)
      : NodeKernel(graph, node), operands_(graph, node) {
    const Shape& shape = graph.type(node.inputs[operands_.gradient ? 1 : 0]).shape;
    plan_.channels = shape[1];
    plan_.count = shape[1] == 0 ? 0 : element_count(shape) / shape[1];
    plan_.run = shape[0] == 0 ? 0 : plan_.count / shape[0];
    plan_.by_run = Divider(plan_.run);
    plan_.epsilon = std::get<ir::BatchNormAttributes>(node.attributes).epsilon;
    plan_.narrow = element_count(shape) <= std::numeric_limits<std::int32_t>::max();
    packs_ = plan_.run % Pack<T>::kElements == 0;
    cut();
  }

  std::size_t workspace_bytes() const override {
    if (plan_.run == 1 || is_alone()) return 0;
    return static_cast<std::size_t>(plan_.channels * plan_.parts) * sizeof(Pair);
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (plan_.channels * plan_.count == 0) return;
    Plan plan = plan_;
    plan.rows = operands_.rows(pointers);
    if (operands_.gradient && plan.count <= 2 && plan.rows == nullptr) {
      const FewValues few{plan.channels, plan.count, plan.run, plan.epsilon};
      enqueue_few_values(few, operands_.gradients<T>(pointers), stream);
    } else if (plan.run == 1) {
      const Columns columns{plan.channels, plan.count, plan.epsilon, plan.rows};
      if (operands_.gradient) {
        enqueue_columns(columns, gradients(pointers, stream), stream);
      } else {
        enqueue_columns(columns, operands_.normalized<T>(pointers), operands_.epilogue, stream);
      }
    } else if (packs_) {
      enqueue<Pack<T>::kElements>(plan, pointers, stream);
    } else {
      enqueue<1>(plan, pointers, stream);
    }
    check_launch("batch_norm");
  }

 private:
  bool is_alone() const { return plan_.count <= kMostAlone; }

  void cut() {
    if (is_alone()) {
      plan_.parts = 1;
      plan_.length = plan_.count;
      return;
    }
    constexpr std::int64_t kLeast = 4 * kThreads;
    const std::int64_t wanted = kBlocksWanted / std::max<std::int64_t>(1, plan_.channels);
    const std::int64_t most = std::min<std::int64_t>(kMostParts, plan_.count / kLeast);
    plan_.parts = std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, most));
    plan_.length = (plan_.count + plan_.parts - 1) / plan_.parts;
    plan_.length = (plan_.length + kLeast - 1) / kLeast * kLeast;
    plan_.parts = std::max<std::int64_t>(1, (plan_.count + plan_.length - 1) / plan_.length);
  }

  // The operands of the gradient. If dy is a sum, it is computed first.
  Gradients<T> gradients(Pointers pointers, cudaStream_t stream) const {
    const Gradients<T> a = operands_.gradients<T>(pointers);
    if (a.added == nullptr) return a;
    enqueue_dy_sum(plan_.channels * plan_.count, a, stream);
    return a.with_dy_sum();
  }

  template <int kPack>
  void enqueue(const Plan& plan, Pointers pointers, cudaStream_t stream) const {
    const auto blocks = static_cast<unsigned>(plan.channels * plan.parts);
    Pair* const partial = is_alone() ? nullptr : workspace<Pair>(pointers);
    const auto with = [](bool yes, auto&& f) {
      if (yes) f(std::true_type());
      if (!yes) f(std::false_type());
    };
    if (operands_.gradient) {
      const Gradients<T> a = gradients(pointers, stream);
      with(a.result != nullptr, [&](auto relu) {
        constexpr bool kRelu = decltype(relu)::value;
        if (!is_alone()) {
          gradient_sums<T, kPack, kRelu><<<blocks, kThreads, 0, stream>>>(plan, a, partial);
        }
        with(is_alone(), [&](auto alone) {
          gradient_apply<T, kPack, kRelu, decltype(alone)::value>
              <<<blocks, kThreads, 0, stream>>>(plan, a, partial);
        });
      });
      return;
    }
    const Normalized<T> a = operands_.normalized<T>(pointers);
    if (a.given == nullptr && !is_alone()) {
      moments<T, kPack><<<blocks, kThreads, 0, stream>>>(plan, a.x, partial);
    }
    with_epilogue(operands_.epilogue, [&](auto epilogue) {
      with(is_alone(), [&](auto alone) {
        normalize<T, kPack, decltype(epilogue)::value, decltype(alone)::value>
            <<<blocks, kThreads, 0, stream>>>(plan, a, partial);
      });
    });
  }

  BatchNormOperands operands_;
  bool packs_ = false;
  Plan plan_{};
};

// Tensors with the channel innermost, and matrices of many rows.
template <class S>
class BatchNormRows final : public NodeKernel {
 public:
  BatchNormRows(const ir::Graph& graph, const ir::Node& node, const Context& context)
      : NodeKernel(graph, node), operands_(graph, node) {
    const Shape& shape = graph.type(node.inputs[0]).shape;
    const std::int64_t rows = shape[1] == 0 ? 0 : element_count(shape) / shape[1];
    plan_ =
        Rows(rows, shape[1], sizeof(S), std::get<ir::BatchNormAttributes>(node.attributes).epsilon,
             context.multiprocessors, context.cluster_blocks > 1);
  }

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(plan_.partial) * sizeof(Compute<S>);
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (plan_.rows * plan_.channels == 0) return;
    auto* const partial = workspace<Compute<S>>(pointers);
    if (operands_.gradient && plan_.rows <= 2) {
      const FewValues few{plan_.channels, plan_.rows, 1, plan_.epsilon};
      enqueue_few_values(few, operands_.gradients<S>(pointers), stream);
    } else if (operands_.gradient) {
      enqueue_rows(plan_, operands_.gradients<S>(pointers), partial, stream);
    } else {
      enqueue_rows(plan_, operands_.normalized<S>(pointers), operands_.epilogue, partial, stream);
    }
    check_launch("batch_norm");
  }

 private:
  BatchNormOperands operands_;
  Rows plan_;
};

// Whether the channel is innermost in the requested layouts.
bool channels_innermost(const ir::Graph& graph, const ir::Node& node) {
  return graph.type(node.inputs[0]).rank() == 2 ||
         !normalization_layouts(graph, node).outputs[0].plain();
}

// Whether BatchNormRows takes the node.
bool goes_by_rows(const ir::Graph& graph, const ir::Node& node) {
  constexpr std::int64_t kManyRows = 4096;
  const auto& attributes = std::get<ir::BatchNormAttributes>(node.attributes);
  if (attributes.counts_rows) return false;
  if (attributes.coefficients == ir::Coefficients::alone) return true;
  const ir::Type& type = graph.type(node.inputs[0]);
  const std::int64_t channels = type.shape[1];
  const std::int64_t rows = channels == 0 ? 0 : type.elements() / channels;
  const bool few_rows = rows == type.shape[0] && rows < kManyRows;  // one launch serves them
  return ir::is_half(type.data_type) || (channels_innermost(graph, node) && !few_rows);
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context& context) {
  if (goes_by_rows(graph, node)) return make_floating_or_half<BatchNormRows>(graph, node, context);
  return make_floating<BatchNorm>(graph, node, context);
}

// What counts rows has kernels for plain layouts alone.
LayoutChoice layouts(const ir::Graph& graph, const ir::Node& node) {
  const bool counts_rows = std::get<ir::BatchNormAttributes>(node.attributes).counts_rows;
  return counts_rows ? plain_layouts(node) : normalization_layouts(graph, node);
}

bool takes(const ir::Graph& graph, const ir::Node& node, const ir::ScalarList& list,
           const ir::ValueId* extra, int count) {
  const auto& attributes = std::get<ir::BatchNormAttributes>(node.attributes);
  const bool forward = node.op == ir::Op::batch_norm;
  if (forward && !ir::add_relu_epilogue_of(list)) return false;
  int relu_mask = 0;  // the list's input that is a bit mask
  if (!forward) {
    // A sum is materialized, because other nodes read it. Other prologues have one reader.
    const auto prologue = ir::gradient_prologue_of(list);
    if (!prologue || (prologue->added >= 0) != attributes.gives_prologue) return false;
    if (attributes.has_relu_mask) relu_mask = prologue->result;
  }
  const ir::Type& type = graph.type(node.outputs[0]);
  for (int k = 1; k <= count; ++k) {
    const ir::Type& operand = graph.type(extra[k - 1]);
    if (k == relu_mask) continue;
    if (operand.shape != type.shape || operand.data_type != type.data_type) return false;
  }
  return true;
}

bool fuses(const ir::Graph& graph, const ir::Node& node, const ir::ScalarList& list,
           const std::vector<ir::ValueId>& extra) {
  const auto& attributes = std::get<ir::BatchNormAttributes>(node.attributes);
  // Operands of a list would stand where the number of rows does.
  if (attributes.counts_rows && list.inputs > 1) return false;
  return attributes.epilogue.empty() && !list.empty() &&
         takes(graph, node, list, extra.data(), static_cast<int>(extra.size()));
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const auto& attributes = std::get<ir::BatchNormAttributes>(node.attributes);
  if (attributes.has_residual_pair) return Support::no("a residual pair");
  const ir::ScalarList& list = attributes.epilogue;
  const std::size_t own =
      (node.op == ir::Op::batch_norm ? 3 : 5) + (attributes.counts_rows ? 1 : 0);
  if (!list.empty() &&
      !takes(graph, node, list, node.inputs.data() + own, std::max(0, list.inputs - 1))) {
    return Support::no("a list that is no epilogue of batch norm");
  }
  if (attributes.counts_rows && ir::is_half(graph.type(node.inputs[0]).data_type)) {
    return Support::no("rows that do not count, in 16 bits");
  }
  return supports_floating_or_half(graph, node);
}

}  // namespace

bool batch_norm_has_relu_mask(const ir::Graph& graph, const ir::Node& node) {
  // Rows must consist of pairs of packs, so that each pair has at least one byte of the mask.
  const ir::Type& type = graph.type(node.inputs[0]);
  const bool half = ir::is_half(type.data_type);
  if (!half && type.data_type != DataType::kFloat32) return false;
  if (!goes_by_rows(graph, node) || type.shape[1] % 8 != 0) return false;
  const ir::ScalarList& list = std::get<ir::BatchNormAttributes>(node.attributes).epilogue;
  if (node.op == ir::Op::batch_norm) {
    const auto epilogue = ir::add_relu_epilogue_of(list);
    return epilogue && epilogue->relu;
  }
  const auto prologue = ir::gradient_prologue_of(list);
  const bool has_beta = static_cast<int>(node.inputs.size()) > list.inputs + 4;
  return prologue && prologue->result > 0 && (half || !has_beta);
}

std::vector<KernelEntry> batch_norm_entries() {
  return {{ir::Op::batch_norm, supports, make, layouts, fuses},
          {ir::Op::batch_norm_gradient, supports, make, layouts, fuses}};
}

}  // namespace traingraph::cuda
