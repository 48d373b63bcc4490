// `world`, which connects the ranks at its first call, and what a communicator tells of them.
#include <traingraph/distributed.h>

#include <mutex>

#include <traingraph/describe.h>
#include <traingraph/errors.h>

#include "distributed/launcher.h"
#include "distributed/mpi.h"
#include "distributed/ranks.h"
#include "distributed/rendezvous.h"
#include "distributed/sockets.h"

namespace traingraph::distributed {
namespace {

std::shared_ptr<Ranks> connected() {
  const Launch found = launch();
  if (found.size == 1) return make_ranks(0, 1, nullptr);
  if (found.by == Launch::By::mpi) return mpi_ranks(found);
  std::vector<Socket> sockets = connect_ranks(found.rank, found.size, found.master, limit());
  return make_ranks(found.rank, found.size, std::make_unique<Sockets>(std::move(sockets), limit()));
}

// Kept for the life of the process: connections end with it.
struct World {
  Mutex mutex;
  std::shared_ptr<Ranks> ranks;
};

World& only_world() {
  static auto* const made = new World;
  return *made;
}

}  // namespace

Communicator world() {
  World& known = only_world();
  const std::lock_guard lock(known.mutex);
  if (known.ranks == nullptr) known.ranks = connected();
  return Communicator(known.ranks);
}

Communicator from_mpi_handle(std::uintptr_t handle) { return Communicator(mpi_ranks(handle)); }

void Communicator::abandon() const noexcept { ranks_->abandon(); }
int Communicator::rank() const { return ranks_->rank(); }
int Communicator::size() const { return ranks_->size(); }
int Communicator::local_rank() const { return ranks_->local_rank(); }
std::string Communicator::engine() const { return ranks_->engine(); }

const ClassDescription& Communicator::class_description() {
  static const ClassDescription description =
      Describing<Communicator>("Communicator",
                               "The ranks that train together, and this one among them.")
          .property("rank", &Communicator::rank, "The number of this process, from 0.")
          .property("size", &Communicator::size, "How many processes there are.")
          .property("local_rank", &Communicator::local_rank,
                    "The number of this process among those of its machine, from 0: that of its "
                    "GPU, `device=f'cuda:{world.local_rank}'`.")
          .property("engine", &Communicator::engine,
                    "What moves the bytes: 'none' for one rank, 'sockets', or the name of the MPI "
                    "library.")
          .action("abandon", &Communicator::abandon,
                  "Lets the other ranks raise when they next wait for this one, which cannot go "
                  "on. A program that ends with an exception does so by itself.")
          .repr([](const Communicator& c) {
            return std::to_string(c.rank()) + " of " + std::to_string(c.size()) + " over " +
                   c.engine();
          });
  return description;
}

}  // namespace traingraph::distributed
