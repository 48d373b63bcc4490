// The memory of another process of this machine, which Linux lets a process of the same user read:
// bytes go once from memory to memory, where a socket copies them into the system and out of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace traingraph::distributed {

// What a process tells others, so that they may read it: bytes that no other process has, and
// where they are.
struct ReadableProcess {
  std::int64_t process = 0;  // 0 where this system has no such reading
  std::uint64_t place = 0;
  std::array<std::byte, 16> secret{};
};

// Of this process. Processes that its parent has started may read it from now on.
ReadableProcess readable_process();
// Whether the process is on this machine, by its secret, and may be read.
bool can_read(const ReadableProcess& other);
// False where the process has ended or has no such bytes.
bool read_process(std::int64_t process, std::uint64_t from, std::byte* to, std::size_t length);

}  // namespace traingraph::distributed
