// The sum over ranks, by NCCL: all arrays of a bucket in one launch.
#include <cuda_bf16.h>

#include <algorithm>

#include "backends/cuda/distributed/nccl_ranks.h"
#include "backends/cuda/kernel/check.h"
#include "backends/cuda/kernel/node_kernel.h"
#include "runtime/table_backend.h"

namespace traingraph::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::size_t kNumbers = 2;  // before the arrays: rows of this rank, rows of all

// Whether all ranks have been told of one global batch, and have its rows together.
__global__ void check_rows(const std::int64_t* sums, const std::int64_t* all_rows, int ranks,
                           RowsFound* found, unsigned long long* done) {
  const std::int64_t all = all_rows[0];
  if (sums[0] != all || sums[1] != all * ranks) {
    found->rows = sums[0];
    __threadfence_system();
    found->all_rows = all;
    __threadfence_system();
  }
  atomicAdd(done, 1ULL);
}

template <class From, class To>
__global__ void __launch_bounds__(kThreads) convert(std::size_t count, const From* from, To* to) {
  const std::size_t all = std::size_t{gridDim.x} * kThreads;
  for (std::size_t k = std::size_t{blockIdx.x} * kThreads + threadIdx.x; k < count; k += all) {
    to[k] = static_cast<To>(from[k]);
  }
}

class AllReduce final : public NodeKernel {
 public:
  AllReduce(const ir::Graph& graph, const ir::Node& node, const Context& context)
      : NodeKernel(graph, node),
        ranks_(nccl_ranks(std::get<ir::AllReduceAttributes>(node.attributes).ranks, context)),
        type_(type_of(graph, node)),
        most_blocks_(4 * context.multiprocessors) {
    const std::size_t size = type_ == NcclType::float64 ? sizeof(double) : sizeof(float);
    for (const ir::ValueId id : node.outputs) {
      const ir::Value& value = graph.value(id);
      counts_.push_back(ir::storage_bytes(value.type, value.layout) / size);
    }
  }

  std::size_t workspace_bytes() const override {
    std::size_t bytes = kSums;
    if (type_ == NcclType::bfloat16) {
      for (const std::size_t count : counts_) bytes += rounded(count);
    }
    return bytes;
  }
  NcclRanks* ranks() const override { return &ranks_; }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    auto* const sums = workspace<std::int64_t>(pointers);
    if (type_ == NcclType::bfloat16) {
      each_copy(pointers, [&](std::size_t k, __nv_bfloat16* copy) {
        const auto* const from = in<float>(pointers, kNumbers + k);
        convert<<<blocks_of(k), kThreads, 0, stream>>>(counts_[k], from, copy);
      });
    }
    check_nccl(nccl().GroupStart(), "ncclGroupStart");
    for (std::size_t k = 0; k < kNumbers; ++k) {
      add(in<std::byte>(pointers, k), sums + k, 1, NcclType::int64, stream);
    }
    if (type_ == NcclType::bfloat16) {
      each_copy(pointers, [&](std::size_t k, __nv_bfloat16* copy) {
        add(copy, copy, counts_[k], type_, stream);
      });
    } else {
      for (std::size_t k = 0; k < counts_.size(); ++k) {
        add(in<std::byte>(pointers, kNumbers + k), out<std::byte>(pointers, k), counts_[k], type_,
            stream);
      }
    }
    check_nccl(nccl().GroupEnd(), "ncclGroupEnd");
    if (type_ == NcclType::bfloat16) {
      each_copy(pointers, [&](std::size_t k, const __nv_bfloat16* copy) {
        convert<<<blocks_of(k), kThreads, 0, stream>>>(counts_[k], copy, out<float>(pointers, k));
      });
    }
    check_rows<<<1, 1, 0, stream>>>(sums, in<std::int64_t>(pointers, 1), ranks_.size(),
                                    ranks_.rows_found(), ranks_.done());
    check_launch("check of the rows of ranks");
  }

 private:
  static constexpr std::size_t kSums = 64;  // room for those of the rows

  static NcclType type_of(const ir::Graph& graph, const ir::Node& node) {
    if (std::get<ir::AllReduceAttributes>(node.attributes).in_bfloat16) return NcclType::bfloat16;
    const bool is_double = graph.type(node.outputs[0]).data_type == DataType::kFloat64;
    return is_double ? NcclType::float64 : NcclType::float32;
  }
  // Bytes of a copy that travels.
  static std::size_t rounded(std::size_t count) { return (2 * count + 63) / 64 * 64; }
  template <class F>
  void each_copy(Pointers pointers, const F& f) const {
    std::byte* at = workspace<std::byte>(pointers) + kSums;
    for (std::size_t k = 0; k < counts_.size(); at += rounded(counts_[k++])) {
      f(k, reinterpret_cast<__nv_bfloat16*>(at));
    }
  }
  unsigned blocks_of(std::size_t k) const {
    const std::size_t needed = (counts_[k] + kThreads - 1) / kThreads;
    return static_cast<unsigned>(std::min<std::size_t>(needed, most_blocks_));
  }
  void add(const void* from, void* to, std::size_t count, NcclType type,
           cudaStream_t stream) const {
    check_nccl(nccl().AllReduce(from, to, count, type, NcclSum::sum, ranks_.communicator(), stream),
               "ncclAllReduce");
  }

  NcclRanks& ranks_;
  NcclType type_;
  std::size_t most_blocks_;
  std::vector<std::size_t> counts_;
};

Support supports(const ir::Graph&, const ir::Node&) { return {}; }

// Sums have the layouts of the arrays, whatever those are.
LayoutChoice layouts(const ir::Graph& graph, const ir::Node& node) {
  LayoutChoice choice = layouts_as_they_are(graph, node);
  choice.outputs.assign(choice.inputs.begin() + kNumbers, choice.inputs.end());
  return choice;
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context& context) {
  return std::make_unique<AllReduce>(graph, node, context);
}

}  // namespace

std::vector<KernelEntry> all_reduce_entries() {
  return {{ir::Op::all_reduce, supports, make, layouts, nullptr}};
}

}  // namespace traingraph::cuda
