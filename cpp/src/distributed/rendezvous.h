// How ranks that environment variables number find each other: rank 0 listens, the others tell it
// where they listen themselves, and each pair connects.
#pragma once

#include <chrono>
#include <vector>

#include "distributed/socket.h"

namespace traingraph::distributed {

// By rank; the own place is empty. Raises DistributedError where a rank does not come in time, or
// is of another version or world.
std::vector<Socket> connect_ranks(int rank, int size, const Address& master,
                                  std::chrono::seconds limit);

}  // namespace traingraph::distributed
