// What environment variables say of the ranks that a program was started as.
#pragma once

#include <chrono>
#include <string>

#include "distributed/socket.h"

namespace traingraph::distributed {

struct Launch {
  enum class By { nobody, addresses, mpi };
  By by = By::nobody;
  int rank = 0, size = 1;     // MPI itself tells the rank
  Address master = {};        // by addresses
  std::string variable = {};  // of an MPI launcher: the one that tells of it
};

// Raises InvalidArgument for variables without the others that they need, and for what is no
// number of their range.
Launch launch();
// How long a rank may be silent: TRAINGRAPH_DISTRIBUTED_LIMIT in seconds, or 30.
std::chrono::seconds limit();

}  // namespace traingraph::distributed
