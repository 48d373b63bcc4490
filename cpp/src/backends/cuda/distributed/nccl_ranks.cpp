// Meeting, watching and giving up the ranks of GPUs.
#include "backends/cuda/distributed/nccl_ranks.h"

#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <traingraph/errors.h>
#include <traingraph/mutex.h>

#include "backends/cuda/kernel/check.h"
#include "backends/cuda/kernel/core_services.h"

namespace traingraph::cuda {
namespace {

constexpr std::chrono::milliseconds kLook{100};
// For the last sum of a rank that ends because it is done.
constexpr std::chrono::seconds kGrace{1};

// What this process cannot go on for. Kept for its life.
std::atomic<const std::string*> lost = nullptr;
std::atomic<const volatile Disagreement*> seen = nullptr;

// Pinned, and seen by the device under the same address.
template <class T>
T* host_memory() {
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, sizeof(T), cudaHostAllocMapped | cudaHostAllocPortable),
        "cudaHostAlloc");
  return new (memory) T{};
}

}  // namespace

NcclRanks::NcclRanks(std::shared_ptr<Peers> peers, const Context& context)
    : peers_(std::move(peers)), device_(context.device) {
  nccl();  // what is missing is said before anything is waited for
  check_gpus(context);
  void* done = nullptr;
  check(cudaMalloc(&done, sizeof *done_), "cudaMalloc");
  check(cudaMemset(done, 0, sizeof *done_), "cudaMemset");
  done_ = static_cast<unsigned long long*>(done);
  check(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  copied_ = host_memory<unsigned long long>();
  disagreement_ = host_memory<Disagreement>();
  seen = disagreement_;
  connect();
  std::thread([this] { watch(); }).detach();
}

void NcclRanks::check_gpus(const Context& context) const {
  const std::vector<std::string> uuids = peers_->all_texts(context.uuid);
  for (std::size_t a = 0; a < uuids.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      if (uuids[a] != uuids[b]) continue;
      throw InvalidArgument("[compile] expected a GPU for each rank but ranks " +
                            std::to_string(b) + " and " + std::to_string(a) + " both have " +
                            uuids[a] + "; compile for device=f'cuda:{world.local_rank}'");
    }
  }
}

// In a thread of its own, as the call waits for all ranks for ever.
void NcclRanks::connect() {
  struct Call {
    NcclId id{};
    ncclComm* communicator = nullptr;
    std::promise<int> code;
  };
  const auto call = std::make_shared<Call>();
  if (peers_->rank() == 0) check_nccl(nccl().GetUniqueId(&call->id), "ncclGetUniqueId");
  const std::string first =
      peers_->all_texts(std::string(call->id.bytes, sizeof call->id.bytes)).front();
  first.copy(call->id.bytes, sizeof call->id.bytes);
  std::future<int> code = call->code.get_future();
  std::thread([call, device = device_, size = peers_->size(), rank = peers_->rank()] {
    static_cast<void>(cudaSetDevice(device));
    call->code.set_value(nccl().CommInitRank(&call->communicator, size, call->id, rank));
  }).detach();
  const Clock::time_point begun = Clock::now();
  while (code.wait_for(kLook) != std::future_status::ready) {
    if (const std::string why = peers_->failure(); !why.empty()) throw DistributedError(why);
    if (Clock::now() - begun < peers_->limit()) continue;
    throw DistributedError("[compile] expected NCCL to connect the ranks within " +
                           std::to_string(peers_->limit().count()) +
                           " s (TRAINGRAPH_DISTRIBUTED_LIMIT) but it still waits");
  }
  check_nccl(code.get(), "ncclCommInitRank");
  communicator_ = call->communicator;
}

bool NcclRanks::is_behind(std::int64_t& done) {
  const std::int64_t announced = announced_;
  if (done >= announced) return false;
  check(cudaMemcpyAsync(copied_, done_, sizeof *done_, cudaMemcpyDeviceToHost, copies_),
        "cudaMemcpyAsync");
  check(cudaStreamSynchronize(copies_), "cudaStreamSynchronize");
  done = static_cast<std::int64_t>(*copied_);
  return done < announced;
}

void NcclRanks::watch() {
  try {
    check(cudaSetDevice(device_), "cudaSetDevice");
    std::int64_t done = 0;
    Clock::time_point last = Clock::now();  // when something was done, or nothing was to do
    for (std::string why; why.empty(); std::this_thread::sleep_for(kLook)) {
      const std::int64_t before = done;
      if (!is_behind(done) || done != before) {
        last = Clock::now();
      } else if (Clock::now() - last > peers_->limit()) {
        why = "[distributed] expected the sums of all ranks within " +
              std::to_string(peers_->limit().count()) +
              " s (TRAINGRAPH_DISTRIBUTED_LIMIT) but a rank was silent";
      } else if (Clock::now() - last > kGrace) {
        why = peers_->failure();
      }
      if (!why.empty()) give_up(why);
    }
  } catch (...) {
    // The process ends, or the device is lost: then whoever waits for it raises.
  }
}

void NcclRanks::give_up(const std::string& why) {
  lost = new std::string(why);
  peers_->abandon();
  static_cast<void>(nccl().CommAbort(communicator_));
}

NcclRanks& nccl_ranks(int number, const Context& context) {
  struct Known {
    Mutex mutex;
    std::map<std::pair<int, int>, std::unique_ptr<NcclRanks>> ranks;
  };
  static auto* const known = new Known;  // as its threads, for the life of the process
  const std::lock_guard lock(known->mutex);
  std::unique_ptr<NcclRanks>& found = known->ranks[{number, context.device}];
  if (found == nullptr) {
    found = std::make_unique<NcclRanks>(core_services->peers_numbered(number), context);
  }
  return *found;
}

void check_ranks() {
  if (const std::string* const why = lost.load()) {
    throw DistributedError(*why +
                           " (end this process and start all ranks again, from the last "
                           "checkpoint)");
  }
  const volatile Disagreement* const found = seen.load();
  if (found != nullptr && found->graph != 0) {
    throw DistributedError("[execute] expected the sums of graph " + std::to_string(found->graph) +
                           " on all ranks, as they were compiled, but some brought those of "
                           "another, and have trained on them: execute graphs in the same order "
                           "on all ranks, from one thread");
  }
  if (found == nullptr || found->all_rows == 0) return;
  throw DistributedError("[execute] expected the same number of rows on all ranks, together " +
                         std::to_string(found->all_rows) + ", but they have " +
                         std::to_string(found->rows) +
                         ", and have trained on them; fit shards batches that are not");
}

}  // namespace traingraph::cuda
