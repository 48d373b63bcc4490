// Ranks that have a GPU each: their communicator, and the watch over sums that never end.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "backends/cuda/distributed/nccl_library.h"
#include "backends/cuda/kernel/context.h"
#include "runtime/peers.h"

namespace traingraph::cuda {

// Of ranks that were elsewhere than they had agreed on, in host memory that the device sees.
struct Disagreement {
  std::int64_t graph;     // that this rank was at, where others were at another; 0: not found
  std::int64_t rows;      // of all ranks together
  std::int64_t all_rows;  // as this rank has been told; 0: not found
};

// A kernel of NCCL waits for the other ranks, so a rank that has ended would hang this one. A
// thread watches: when no sum was done for a while, and a rank has ended or the limit has passed,
// it aborts the communicator. The kernels return then, and whoever waits for them raises.
class NcclRanks {
 public:
  // To be called by all ranks. Raises DistributedError, and InvalidArgument for two on one GPU.
  NcclRanks(std::shared_ptr<Peers> peers, const Context& context);
  NcclRanks(const NcclRanks&) = delete;
  NcclRanks& operator=(const NcclRanks&) = delete;

  int size() const { return peers_->size(); }
  ncclComm* communicator() const { return communicator_; }
  // Each sum adds 1, on the device.
  unsigned long long* done() const { return done_; }
  Disagreement* disagreement() const { return disagreement_; }
  // Before so many sums are enqueued.
  void announce(std::int64_t sums) { announced_ += sums; }

 private:
  using Clock = std::chrono::steady_clock;

  void check_gpus(const Context& context) const;
  void connect();
  void watch();
  // Whether sums are still to come; counts those that are done.
  bool is_behind(std::int64_t& done);
  void give_up(const std::string& why);

  const std::shared_ptr<Peers> peers_;
  const int device_;
  ncclComm* communicator_ = nullptr;
  unsigned long long* done_ = nullptr;
  unsigned long long* copied_ = nullptr;  // of `done_`, in pinned memory
  cudaStream_t copies_ = nullptr;
  Disagreement* disagreement_ = nullptr;
  std::atomic<std::int64_t> announced_ = 0;
};

// Those of this number on the context's GPU, connected at the first call, which all ranks make.
NcclRanks& nccl_ranks(int number, const Context& context);

// Raises DistributedError where a sum over ranks was given up, or was one of another graph or of
// other rows, as the results on the device are none then.
void check_ranks();

}  // namespace traingraph::cuda
