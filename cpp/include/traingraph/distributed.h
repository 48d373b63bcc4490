// Processes that train one graph together, each of them a rank.
#pragma once

#include <memory>
#include <string>

#include <traingraph/export.h>

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
  bool operator==(const Options&) const = default;
};

// Those that torchrun's environment variables, mpirun or srun tell of; without any of them one
// rank. The first call connects them, and returns when all of them have called. Raises
// DistributedError.
TRAINGRAPH_API Communicator world();

}  // namespace distributed
}  // namespace traingraph
