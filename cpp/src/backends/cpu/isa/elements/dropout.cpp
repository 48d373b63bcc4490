// Dropout with the masks of runtime/numbers/philox.h. A lane of 64 bits holds one word of a block:
// the halves above the words are of no account until the words are joined at the end.
#include "backends/cpu/isa/elements/dropout.h"

#include <algorithm>

#include "backends/cpu/isa/vector.h"
#include "runtime/numbers/philox.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {
namespace {

constexpr int kBlocks = kLanes / 2;  // that are computed at once

typedef std::uint64_t Wide __attribute__((vector_size(4 * kLanes)));
typedef std::uint32_t Words __attribute__((vector_size(4 * kLanes)));

// The product of the lower halves of each lane.
TRAINGRAPH_INLINE Wide product(Wide x, std::uint64_t factor) {
  const Wide factors = factor - Wide{};
#if defined(__AVX512F__)
  // Without a mask GCC warns of a vector that its header leaves undefined.
  return reinterpret_cast<Wide>(_mm512_maskz_mul_epu32(0xFF, reinterpret_cast<__m512i>(x),
                                                       reinterpret_cast<__m512i>(factors)));
#elif defined(__AVX2__)
  return reinterpret_cast<Wide>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(x), reinterpret_cast<__m256i>(factors)));
#elif defined(__SSE2__)
  return reinterpret_cast<Wide>(
      _mm_mul_epu32(reinterpret_cast<__m128i>(x), reinterpret_cast<__m128i>(factors)));
#else
  return (x & 0xFFFFFFFFu) * factors;
#endif
}

// Two halves of every second lane of a and b, one behind the other.
template <int kFirst, int... kI>
TRAINGRAPH_INLINE Wide interleaved(Wide a, Wide b, std::integer_sequence<int, kI...>) {
  return __builtin_shufflevector(a, b, (kFirst + kI / 2 + (kI % 2) * kBlocks)...);
}

// The words of kBlocks blocks from `index` on, in the order of their elements.
TRAINGRAPH_INLINE void words_of(std::uint64_t seed, std::uint64_t step, std::uint64_t index,
                                Words& low, Words& high) {
  Wide c0;
  for (int k = 0; k < kBlocks; ++k) c0[k] = index + static_cast<std::uint64_t>(k);
  Wide c1 = c0 >> 32;
  Wide c2 = step - Wide{}, c3 = (step >> 32) - Wide{};
  std::uint32_t key0 = static_cast<std::uint32_t>(seed);
  std::uint32_t key1 = static_cast<std::uint32_t>(seed >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const Wide a = product(c0, 0xD2511F53u), b = product(c2, 0xCD9E8D57u);
    c0 = (b >> 32) ^ c1 ^ std::uint64_t{key0};
    c1 = b;
    c2 = (a >> 32) ^ c3 ^ std::uint64_t{key1};
    c3 = a;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  const Wide first = (c0 & 0xFFFFFFFFu) | (c1 << 32), second = (c2 & 0xFFFFFFFFu) | (c3 << 32);
  constexpr auto kOrder = std::make_integer_sequence<int, kBlocks>{};
  low = reinterpret_cast<Words>(interleaved<0>(first, second, kOrder));
  high = reinterpret_cast<Words>(interleaved<kBlocks / 2>(first, second, kOrder));
}

void drop(const ir::DropoutAttributes& attributes, std::int64_t step, std::int64_t first,
          const float* x, float* y, std::int64_t n) {
  constexpr std::int64_t kWords = 2 * kLanes;
  const std::uint32_t threshold = philox::keep_threshold(attributes.rate);
  const auto scale = static_cast<float>(1 / (1 - attributes.rate));
  const auto steps = static_cast<std::uint64_t>(step);
  const auto one_by_one = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) {
      const auto element = static_cast<std::uint64_t>(first + k);
      const bool dropped = philox::word_of(attributes.seed, steps, element) < threshold;
      y[k] = dropped ? 0 : x[k] * scale;
    }
  };
  // Whole blocks of four words between what is left over at both ends.
  std::int64_t k = std::min(n, (4 - first % 4) % 4);
  one_by_one(0, k);
  for (; k + kWords <= n; k += kWords) {
    Words low, high;
    words_of(attributes.seed, steps, static_cast<std::uint64_t>(first + k) / 4, low, high);
    store(y + k, low < threshold ? Vector{} : load(x + k) * scale);
    store(y + k + kLanes, high < threshold ? Vector{} : load(x + k + kLanes) * scale);
  }
  one_by_one(k, n);
}

}  // namespace

extern const DropoutLoops dropout_loops;
const DropoutLoops dropout_loops{drop};

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
