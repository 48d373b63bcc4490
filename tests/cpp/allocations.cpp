// Replaces operator new and delete. The module exports nothing but its initialiser, so this reaches
// the copy of the core inside it and nothing else in the process. Memory comes from malloc as with
// the operators of the C++ library, for a block may be freed by the other side.
#include "allocations.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "runtime/memory/allocator.h"
#include "testing.h"

namespace {

std::atomic<std::int64_t> call_count{0};
std::atomic<std::int64_t> bytes_asked_for{0};

[[maybe_unused]] void* counted(void* memory, std::size_t bytes) {
  if (memory == nullptr) throw std::bad_alloc();
  call_count.fetch_add(1, std::memory_order_relaxed);
  bytes_asked_for.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  return memory;
}

[[maybe_unused]] void* plain(std::size_t bytes) {
  return counted(std::malloc(std::max<std::size_t>(bytes, 1)), bytes);
}

[[maybe_unused]] void* aligned(std::size_t bytes, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  return counted(
      std::aligned_alloc(step, (std::max<std::size_t>(bytes, 1) + step - 1) / step * step), bytes);
}

}  // namespace

// An address sanitizer has operators of its own, and insists that both sides use them.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kCounts = false;
#else
constexpr bool kCounts = true;
void* operator new(std::size_t bytes) { return plain(bytes); }
void* operator new[](std::size_t bytes) { return plain(bytes); }
void* operator new(std::size_t bytes, std::align_val_t a) { return aligned(bytes, a); }
void* operator new[](std::size_t bytes, std::align_val_t a) { return aligned(bytes, a); }
// Containers and algorithms of the library ask this way too.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  call_count.fetch_add(1, std::memory_order_relaxed);
  bytes_asked_for.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  return std::malloc(std::max<std::size_t>(bytes, 1));
}
void* operator new[](std::size_t bytes, const std::nothrow_t& tag) noexcept {
  return operator new(bytes, tag);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
#endif

namespace traingraph::testing {

Allocations allocations() { return {call_count.load(), bytes_asked_for.load()}; }

void bind_allocations(py::module_& module) {
  module.def(
      "allocations",
      [] {
        const Allocations now = allocations();
        return py::make_tuple(now.count, now.bytes);
      },
      "(calls, bytes) of operator new since the process started.");
  module.attr("counts_allocations") = kCounts;
  module.def("allocated_bytes", allocated_bytes, "What backends' allocators hold now.");
}

}  // namespace traingraph::testing
