#include "runtime/memory/allocator.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include <traingraph/errors.h>

namespace traingraph {
namespace {

std::atomic<std::int64_t> live_bytes{0};

constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

std::size_t allocated_bytes() { return static_cast<std::size_t>(live_bytes.load()); }
void count_allocation(std::int64_t bytes) { live_bytes += bytes; }

std::shared_ptr<std::byte> allocate_host(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const bool large = bytes >= kHugePage;
  const std::size_t alignment = large ? kHugePage : 64;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = rounded < bytes ? nullptr : std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) {
    throw OutOfMemory("[allocate] expected " + std::to_string(bytes) +
                      " bytes of host memory but got none; " + std::to_string(allocated_bytes()) +
                      " bytes are held by graphs and parameters");
  }
#ifdef MADV_HUGEPAGE
  if (large) madvise(memory, rounded, MADV_HUGEPAGE);
#endif
  std::memset(memory, 0, rounded);
  const auto counted = static_cast<std::int64_t>(bytes);
  count_allocation(counted);
  return {static_cast<std::byte*>(memory), [counted](std::byte* p) {
            count_allocation(-counted);
            std::free(p);
          }};
}

std::size_t private_memory_bytes() {
  // size, resident, shared, text, lib, data: pages
  std::ifstream file("/proc/self/statm");
  std::size_t pages[6] = {};
  for (std::size_t& count : pages) file >> count;
  return file ? pages[5] * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace traingraph
