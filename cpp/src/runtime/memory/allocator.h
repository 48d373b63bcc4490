#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace traingraph {

// Host memory for arenas and parameters: 64-byte aligned, zeroed; large blocks ask for huge pages,
// because faulting in 4 KiB pages costs more than using them.
std::shared_ptr<std::byte> allocate_host(std::size_t bytes);

// What every backend's allocate() has handed out and not got back.
std::size_t allocated_bytes();
// Called by allocators; tests compare the sum with the memory plan.
void count_allocation(std::int64_t bytes);

// Private writable memory of the process as the system counts it, in whole pages; 0 where it does
// not tell. Its growth while kernels are made is what libraries took.
std::size_t private_memory_bytes();

}  // namespace traingraph
