// Reading by `process_vm_readv`, and a secret that tells whether a number means the same process.
#include "distributed/process_memory.h"

#ifdef __linux__
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>
#include <random>
#endif

namespace traingraph::distributed {

#ifdef __linux__

ReadableProcess readable_process() {
  static const std::array<std::byte, 16> secret = [] {
    std::random_device random;
    std::array<std::byte, 16> made;
    for (std::byte& byte : made) byte = static_cast<std::byte>(random());
    return made;
  }();
  // Yama, a guard of Linux, lets a process read those that it has started alone. The launcher and
  // what it has started are ranks.
  prctl(PR_SET_PTRACER, static_cast<unsigned long>(getppid()), 0, 0, 0);
  return {getpid(), reinterpret_cast<std::uintptr_t>(secret.data()), secret};
}

bool read_process(std::int64_t process, std::uint64_t from, std::byte* to, std::size_t length) {
  while (length != 0) {
    const iovec here{to, length};
    const iovec there{reinterpret_cast<void*>(static_cast<std::uintptr_t>(from)), length};
    const ssize_t count = process_vm_readv(static_cast<pid_t>(process), &here, 1, &there, 1, 0);
    if (count <= 0) return false;
    to += count;
    from += static_cast<std::uint64_t>(count);
    length -= static_cast<std::size_t>(count);
  }
  return true;
}

#else

ReadableProcess readable_process() { return {}; }

bool read_process(std::int64_t, std::uint64_t, std::byte*, std::size_t) { return false; }

#endif

bool can_read(const ReadableProcess& other) {
  std::array<std::byte, 16> read{};
  return other.process != 0 && read_process(other.process, other.place, read.data(), read.size()) &&
         read == other.secret;
}

}  // namespace traingraph::distributed
