// Processes that train one graph together, each of them a rank.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <traingraph/export.h>
#include <traingraph/types.h>

namespace traingraph {

struct ClassDescription;

namespace distributed {

class Ranks;

// The ranks that a program was started as, and this one among them. A value; copies name the same
// ranks.
class TRAINGRAPH_API Communicator {
 public:
  explicit Communicator(std::shared_ptr<Ranks> ranks) : ranks_(std::move(ranks)) {}
  int rank() const;  // from 0
  int size() const;
  int local_rank() const;  // among the ranks of this machine, from 0
  // What moves the bytes: "none" for one rank, "sockets", or the name of the MPI library.
  std::string engine() const;
  // Lets the other ranks raise when they next wait for this one, which cannot go on. What this
  // raises does so by itself; call it where the program's own code has failed.
  void abandon() const noexcept;
  const std::shared_ptr<Ranks>& ranks() const { return ranks_; }
  bool operator==(const Communicator&) const = default;
  static const ClassDescription& class_description();

 private:
  std::shared_ptr<Ranks> ranks_;
};

// How ranks train together; all give the same. One rank alone does as if nothing were set.
struct Options {
  // Whether batch normalization takes mean and variance over the rows of all ranks.
  bool synchronized_batch_norm = false;
  // Whether each rank keeps a part of the optimizer's buffers, and updates that of the parameters.
  bool shard_optimizer = false;
  // What gradients travel as, kBFloat16; none: as what they are.
  std::optional<DataType> gradient_exchange = {};
  bool operator==(const Options&) const = default;
};

// Those that torchrun's environment variables, mpirun or srun tell of; without any of them one
// rank. The first call connects them, and returns when all of them have called. Raises
// DistributedError.
TRAINGRAPH_API Communicator world();

// The ranks of a communicator of MPI that the program has made, in a copy of it; all of its ranks
// call. MPI has to be there, with MPI_THREAD_SERIALIZED or more. Raises DistributedError.
TRAINGRAPH_API Communicator from_mpi_handle(std::uintptr_t handle);
template <class MpiCommunicator>
Communicator from_mpi(MpiCommunicator communicator) {
  return from_mpi_handle((std::uintptr_t)communicator);  // a pointer or an int
}

}  // namespace distributed
}  // namespace traingraph
