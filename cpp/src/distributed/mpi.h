// The transport over an MPI library, which is loaded when it is needed.
#pragma once

#include <cstdint>
#include <memory>

#include "distributed/launcher.h"
#include "distributed/ranks.h"

namespace traingraph::distributed {

// Those of MPI_COMM_WORLD, in a communicator of our own. Begins MPI unless the program has, and
// then ends it with the process. Raises DistributedError where there is no library that we know, or
// where it knows of other ranks than the launcher.
std::shared_ptr<Ranks> mpi_ranks(const Launch& launch);

// Those of a communicator that the program has made, in a copy of it. Raises DistributedError where
// MPI has not begun.
std::shared_ptr<Ranks> mpi_ranks(std::uintptr_t communicator);

}  // namespace traingraph::distributed
