// Loaded before the C++ library: operator new of the whole process, of which one call can be made
// to fail. Memory comes from malloc, as with the operators of the library.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> calls_left{0};  // until the one that fails; 0 and below: none does

bool fails() {
  if (calls_left.load(std::memory_order_relaxed) <= 0) return false;
  return calls_left.fetch_sub(1, std::memory_order_relaxed) == 1;
}

void* plain(std::size_t bytes) {
  return fails() ? nullptr : std::malloc(std::max<std::size_t>(bytes, 1));
}

void* aligned(std::size_t bytes, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  const std::size_t whole = (std::max<std::size_t>(bytes, 1) + step - 1) / step * step;
  return fails() ? nullptr : std::aligned_alloc(step, whole);
}

void* there(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

#define EXPORTED __attribute__((visibility("default")))

// The call of this number from now on fails, once.
extern "C" EXPORTED void fail_call(std::int64_t number) { calls_left = number; }
extern "C" EXPORTED std::int64_t calls_until_failure() { return calls_left; }

EXPORTED void* operator new(std::size_t bytes) { return there(plain(bytes)); }
EXPORTED void* operator new[](std::size_t bytes) { return there(plain(bytes)); }
EXPORTED void* operator new(std::size_t bytes, std::align_val_t a) {
  return there(aligned(bytes, a));
}
EXPORTED void* operator new[](std::size_t bytes, std::align_val_t a) {
  return there(aligned(bytes, a));
}
EXPORTED void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return plain(bytes);
}
EXPORTED void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return plain(bytes);
}
EXPORTED void operator delete(void* memory) noexcept { std::free(memory); }
EXPORTED void operator delete[](void* memory) noexcept { std::free(memory); }
EXPORTED void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
EXPORTED void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
EXPORTED void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
EXPORTED void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
EXPORTED void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
EXPORTED void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
