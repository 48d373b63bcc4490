#include "runtime/peers.h"

#include <mutex>

#include <traingraph/errors.h>
#include <traingraph/mutex.h>

namespace traingraph {
namespace {

struct Known {
  Mutex mutex;
  std::vector<std::weak_ptr<Peers>> peers;  // by number
};

// Kept for the life of the process.
Known& known() {
  static auto* const made = new Known;
  return *made;
}

}  // namespace

int number_peers() {
  const std::lock_guard lock(known().mutex);
  known().peers.emplace_back();
  return static_cast<int>(known().peers.size()) - 1;
}

void make_known(int number, const std::shared_ptr<Peers>& peers) {
  const std::lock_guard lock(known().mutex);
  known().peers[static_cast<std::size_t>(number)] = peers;
}

std::shared_ptr<Peers> peers_numbered(int number) {
  const std::lock_guard lock(known().mutex);
  const auto place = static_cast<std::size_t>(number);
  std::shared_ptr<Peers> found =
      place < known().peers.size() ? known().peers[place].lock() : nullptr;
  if (found == nullptr) {
    throw InternalError("[all_reduce] no ranks of the number " + std::to_string(number));
  }
  return found;
}

}  // namespace traingraph
