// The transport over an MPI library, which is loaded when it is needed.
#pragma once

#include <memory>

#include "distributed/launcher.h"
#include "distributed/ranks.h"

namespace traingraph::distributed {

// Those of MPI_COMM_WORLD, in a communicator of our own. Begins MPI unless the program has, and
// then ends it with the process. Raises DistributedError where there is no library that we know, or
// where it knows of other ranks than the launcher.
std::shared_ptr<Ranks> mpi_ranks(const Launch& launch);

}  // namespace traingraph::distributed
