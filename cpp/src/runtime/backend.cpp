#include "runtime/backend.h"

#include <cstring>

namespace traingraph {

void Backend::write(std::byte* to, const void* from, std::size_t bytes) const {
  std::memcpy(to, from, bytes);
}

void Backend::read(void* to, const std::byte* from, std::size_t bytes) const {
  std::memcpy(to, from, bytes);
}

std::unique_ptr<PendingRead> Backend::read_later(const std::byte*, std::size_t) const {
  return nullptr;
}

void Backend::copy(std::byte* to, const std::byte* from, std::size_t bytes) const {
  std::memcpy(to, from, bytes);
}

void Backend::clear(std::byte* at, std::size_t bytes) const { std::memset(at, 0, bytes); }

}  // namespace traingraph
