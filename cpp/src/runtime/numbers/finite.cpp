// Tests arrays of 16, 32 and 64-bit floats for NaN and infinity by their exponent bits.
#include "runtime/numbers/finite.h"

#include <algorithm>
#include <cstdint>

// One copy per instruction level, chosen when the library loads.
#if defined(__x86_64__) && defined(__linux__) && !defined(__SANITIZE_THREAD__)
#define TRAINGRAPH_LEVELS \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define TRAINGRAPH_LEVELS
#endif

namespace traingraph {
namespace {

// NaN and infinity are what has every bit of the exponent set: adding its lowest bit then reaches
// the sign bit, which nothing else does. Looked at once per part.
constexpr std::size_t kPart = 4096;

TRAINGRAPH_LEVELS bool none_set(const std::uint32_t* values, std::size_t count) {
  std::uint32_t carried = 0;
  for (std::size_t i = 0; i < count; ++i) carried |= (values[i] & 0x7f800000u) + 0x00800000u;
  return (carried & 0x80000000u) == 0;
}

TRAINGRAPH_LEVELS bool none_set(const std::uint64_t* values, std::size_t count) {
  std::uint64_t carried = 0;
  for (std::size_t i = 0; i < count; ++i) {
    carried |= (values[i] & 0x7ff0000000000000u) + 0x0010000000000000u;
  }
  return (carried & 0x8000000000000000u) == 0;
}

template <class Bits>
bool all_finite(const std::byte* bytes, std::size_t length) {
  const auto* values = reinterpret_cast<const Bits*>(bytes);
  const std::size_t count = length / sizeof(Bits);
  for (std::size_t first = 0; first < count; first += kPart) {
    if (!none_set(values + first, std::min(kPart, count - first))) return false;
  }
  return true;
}

}  // namespace

bool all_finite_half(DataType type, const std::byte* bytes, std::size_t length) {
  const std::uint16_t exponent = type == DataType::kFloat16 ? 0x7c00 : 0x7f80;
  const auto* values = reinterpret_cast<const std::uint16_t*>(bytes);
  return std::none_of(values, values + length / sizeof *values,
                      [&](std::uint16_t bits) { return (bits & exponent) == exponent; });
}

bool all_finite_float(const std::byte* bytes, std::size_t length) {
  return all_finite<std::uint32_t>(bytes, length);
}

bool all_finite_double(const std::byte* bytes, std::size_t length) {
  return all_finite<std::uint64_t>(bytes, length);
}

}  // namespace traingraph
