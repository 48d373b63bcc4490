// The sum over ranks, by NCCL: all arrays of a bucket in one launch, short ones as one array.
#include <cuda_bf16.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "backends/cuda/distributed/nccl_ranks.h"
#include "backends/cuda/kernel/check.h"
#include "backends/cuda/kernel/node_kernel.h"
#include "runtime/table_backend.h"

namespace traingraph::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::size_t kNumbers = 2;  // before the arrays: rows of this rank, rows of all
// What ranks have to agree on is added, too: those numbers, and that of the graph.
constexpr std::size_t kAgreed = kNumbers + 1;
constexpr std::size_t kSums = 64;  // bytes for those sums, at the workspace's begin

// Arrays of fewer bytes travel as one.
constexpr std::size_t kLong = std::size_t{1} << 20;

// Arrays that lie behind each other where they travel.
struct Packed {
  static constexpr int kMost = 96;  // so that it is an argument of a kernel
  std::byte* arrays[kMost];
  std::size_t counts[kMost], places[kMost];  // in elements
};

// One array for each row of blocks.
template <class From, class To>
__device__ void copy(std::size_t count, const From* from, To* to) {
  const std::size_t all = std::size_t{gridDim.x} * kThreads;
  for (std::size_t k = std::size_t{blockIdx.x} * kThreads + threadIdx.x; k < count; k += all) {
    to[k] = static_cast<To>(from[k]);
  }
}

__device__ bool is_first() { return blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0; }

template <class From, class To>
__global__ void __launch_bounds__(kThreads)
    pack(const __grid_constant__ Packed packed, To* all, const std::int64_t* rows,
         const std::int64_t* all_rows, std::int64_t graph, std::int64_t* sums) {
  if (is_first()) {
    sums[0] = *rows;
    sums[1] = *all_rows;
    sums[2] = graph;
  }
  const auto row = blockIdx.y;
  copy(packed.counts[row], reinterpret_cast<const From*>(packed.arrays[row]),
       all + packed.places[row]);
}

// With `found` also checks that all ranks are at one graph, have been told of one global batch, and
// have its rows together.
template <class From, class To>
__global__ void __launch_bounds__(kThreads)
    unpack(const __grid_constant__ Packed packed, const From* all, const std::int64_t* sums,
           const std::int64_t* all_rows, std::int64_t graph, int ranks, Disagreement* found,
           unsigned long long* done) {
  if (found != nullptr && is_first()) {
    if (sums[2] != graph * ranks) {
      found->graph = graph;
      __threadfence_system();
    } else if (sums[0] != *all_rows || sums[1] != *all_rows * ranks) {
      found->rows = sums[0];
      __threadfence_system();
      found->all_rows = *all_rows;
      __threadfence_system();
    }
    atomicAdd(done, 1ULL);
  }
  const auto row = blockIdx.y;
  copy(packed.counts[row], all + packed.places[row], reinterpret_cast<To*>(packed.arrays[row]));
}

// Of T, which travels as Sent.
template <class T, class Sent>
class AllReduce final : public NodeKernel {
 public:
  AllReduce(const ir::Graph& graph, const ir::Node& node, const Context& context)
      : NodeKernel(graph, node),
        ranks_(nccl_ranks(std::get<ir::AllReduceAttributes>(node.attributes).ranks, context)),
        graph_(std::get<ir::AllReduceAttributes>(node.attributes).graph),
        most_blocks_(4 * context.multiprocessors) {
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      const ir::Value& value = graph.value(node.outputs[k]);
      const std::size_t bytes = ir::storage_bytes(value.type, value.layout);
      const std::size_t count = bytes / sizeof(T);
      if (std::is_same_v<T, Sent> && bytes >= kLong) {
        long_.push_back({k, count, 0});
      } else {
        packed_.push_back({k, count, elements_});
        elements_ += (count + kAligned - 1) / kAligned * kAligned;
      }
    }
  }

  std::size_t workspace_bytes() const override { return kSums + elements_ * sizeof(Sent); }
  NcclRanks* ranks() const override { return &ranks_; }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    auto* const sums = workspace<std::int64_t>(pointers);
    auto* const all = reinterpret_cast<Sent*>(workspace<std::byte>(pointers) + kSums);
    const auto* const all_rows = in<std::int64_t>(pointers, 1);
    for (std::size_t first = 0; first == 0 || first < packed_.size(); first += Packed::kMost) {
      const auto [packed, grid] =
          some_packed(first, [&](std::size_t k) { return in<std::byte>(pointers, kNumbers + k); });
      pack<T><<<grid, kThreads, 0, stream>>>(packed, all, in<std::int64_t>(pointers, 0), all_rows,
                                             graph_, sums);
    }
    check_launch("packing of what ranks add");
    check_nccl(nccl().GroupStart(), "ncclGroupStart");
    add(sums, sums, kAgreed, NcclType::int64, stream);
    if (elements_ > 0) add(all, all, elements_, type_of<Sent>(), stream);
    for (const Array& array : long_) {
      add(in<std::byte>(pointers, kNumbers + array.number), out<std::byte>(pointers, array.number),
          array.count, type_of<Sent>(), stream);
    }
    check_nccl(nccl().GroupEnd(), "ncclGroupEnd");
    for (std::size_t first = 0; first == 0 || first < packed_.size(); first += Packed::kMost) {
      const auto [packed, grid] =
          some_packed(first, [&](std::size_t k) { return out<std::byte>(pointers, k); });
      unpack<Sent, T><<<grid, kThreads, 0, stream>>>(
          packed, all, sums, all_rows, graph_, ranks_.size(),
          first == 0 ? ranks_.disagreement() : nullptr, ranks_.done());
    }
    check_launch("unpacking of what ranks have added");
  }

 private:
  // One of the op's, and where it is packed.
  struct Array {
    std::size_t number, count, place;
  };
  static constexpr std::size_t kAligned = 64 / sizeof(Sent);

  template <class U>
  static constexpr NcclType type_of() {
    if constexpr (std::is_same_v<U, double>) return NcclType::float64;
    return std::is_same_v<U, float> ? NcclType::float32 : NcclType::bfloat16;
  }

  template <class Address>
  std::pair<Packed, dim3> some_packed(std::size_t first, const Address& address) const {
    Packed packed{};
    std::size_t longest = 1;
    unsigned count = 0;
    for (std::size_t k = first; k < packed_.size() && count < Packed::kMost; ++k, ++count) {
      // What is packed is not written.
      packed.arrays[count] = const_cast<std::byte*>(address(packed_[k].number));
      packed.counts[count] = packed_[k].count;
      packed.places[count] = packed_[k].place;
      longest = std::max(longest, packed_[k].count);
    }
    const std::size_t blocks = std::min((longest + kThreads - 1) / kThreads, most_blocks_);
    return {packed, dim3(static_cast<unsigned>(blocks), std::max(count, 1U))};
  }

  void add(const void* from, void* to, std::size_t count, NcclType type,
           cudaStream_t stream) const {
    check_nccl(nccl().AllReduce(from, to, count, type, NcclSum::sum, ranks_.communicator(), stream),
               "ncclAllReduce");
  }

  NcclRanks& ranks_;
  std::int64_t graph_;
  std::size_t most_blocks_;
  std::vector<Array> packed_, long_;
  std::size_t elements_ = 0;  // packed
};

Support supports(const ir::Graph&, const ir::Node&) { return {}; }

// Sums have the layouts of the arrays, whatever those are.
LayoutChoice layouts(const ir::Graph& graph, const ir::Node& node) {
  LayoutChoice choice = layouts_as_they_are(graph, node);
  choice.outputs.assign(choice.inputs.begin() + kNumbers, choice.inputs.end());
  return choice;
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context& context) {
  if (std::get<ir::AllReduceAttributes>(node.attributes).in_bfloat16) {
    return std::make_unique<AllReduce<float, __nv_bfloat16>>(graph, node, context);
  }
  if (graph.type(node.outputs[0]).data_type == DataType::kFloat64) {
    return std::make_unique<AllReduce<double, double>>(graph, node, context);
  }
  return std::make_unique<AllReduce<float, float>>(graph, node, context);
}

}  // namespace

std::vector<KernelEntry> all_reduce_entries() {
  return {{ir::Op::all_reduce, supports, make, layouts, nullptr}};
}

}  // namespace traingraph::cuda
