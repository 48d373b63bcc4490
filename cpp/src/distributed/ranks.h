// The ranks of one program, and what they do together beside the sums of gradients.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <traingraph/mutex.h>

#include "distributed/background.h"
#include "distributed/transport.h"
#include "runtime/peers.h"

namespace traingraph::distributed {

// Each member that communicates is to be called by all ranks, in the same order. After one that has
// raised all others raise, too: nobody knows what the ranks still have before them.
class Ranks final : public Peers {
 public:
  // `transport` is null for one rank.
  Ranks(int rank, int size, std::unique_ptr<Transport> transport);
  ~Ranks() override;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::chrono::seconds limit() const override;
  // Among the ranks of this machine.
  int local_rank() const { return local_rank_; }
  std::string engine() const { return transport_ == nullptr ? "none" : transport_->engine(); }
  int number() const { return number_; }

  // Of the next graph that is compiled: from 1, the same on all ranks.
  int number_graph() { return ++graphs_; }
  // The number of the call comes from here. Allocates nothing.
  void exchange(Call call, Header header, Messages& messages);
  // The bytes of all ranks behind each other; each has as many.
  std::vector<std::byte> all_gather(std::span<const std::byte> mine, Call call = Call::all_gather);
  // Bytes, too.
  std::vector<std::string> all_texts(const std::string& mine) override {
    return all_texts(mine, Call::all_gather);
  }
  std::vector<std::string> all_texts(const std::string& mine, Call call);
  // Those of rank 0, in the place of the others'.
  void broadcast(std::span<std::byte> bytes);
  // Numbers added in the order of ranks.
  void add(std::span<double> numbers);
  std::string failure() noexcept override;
  void abandon() noexcept override;
  // At first: finds the ranks of this machine.
  void meet();
  Background& background() { return background_; }
  // Counts a step that waits in a queue, until what it returns is gone.
  std::shared_ptr<void> queue_step();
  // Before what ranks do beside steps: its messages come behind those of the steps that the program
  // has queued before. Not for who holds what these need.
  void wait_for_steps() const;
  // Whether a call has failed.
  bool is_broken() const { return is_broken_; }
  // Whether this process is a child that the rank has forked. It has the rank's connections, and
  // must neither use nor end them.
  bool is_forked() const { return process_ != detail::forks; }

 private:
  const int process_ = detail::forks;
  const int rank_, size_;
  const std::unique_ptr<Transport> transport_;
  Background background_{transport_.get()};
  const int number_;
  int local_rank_ = 0;
  Mutex mutex_;
  std::uint64_t calls_ = 0;
  std::atomic<int> graphs_ = 0;
  std::atomic<int> queued_ = 0;
  std::atomic<bool> is_broken_ = false;
  std::string why_;
};

// The ranks of this number. Raises InternalError where they are no longer there.
std::shared_ptr<Ranks> ranks_numbered(int number);
// Makes them known by their number.
std::shared_ptr<Ranks> make_ranks(int rank, int size, std::unique_ptr<Transport> transport);

// Of so many rows in a global batch, those of one rank: contiguous parts in the order of ranks,
// which differ by one row at most.
struct Shard {
  std::int64_t before = 0;  // rows of the ranks before
  std::int64_t rows = 0;
};
Shard shard_of(std::int64_t all_rows, int rank, int size);

}  // namespace traingraph::distributed
