// The lists of ir/precompiled_lists.h, one loop each: every register lives in a vector register.
#include "backends/cpu/isa/compiled.h"

#include <cstddef>
#include <utility>

#include "backends/cpu/isa/math.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {
namespace {

template <class List>
constexpr std::size_t kInputs = sizeof(List::kinds) - 1;
template <class List>
constexpr std::size_t kSteps = std::size(List::steps);
template <class List>
constexpr std::size_t kResults = std::size(List::results);

template <ir::Scalar kFunction>
inline float apply(float x, float y, Immediates immediates) {
#define TRAINGRAPH_SCALAR(name, arity, value_expression, gradient_x, gradient_y)            \
  if constexpr (kFunction == ir::Scalar::name) {                                            \
    return ir::scalar::name<Math>::template value<float>(x, y, immediates.p, immediates.q); \
  }
#include "ir/scalar.def"
#undef TRAINGRAPH_SCALAR
}

// Register k of those computed so far. Registers are passed by value, for an array of them would
// stay in memory.
template <int kRegister>
__attribute__((always_inline)) inline float at(float first, auto... rest) {
  if constexpr (kRegister <= 0) {
    return first;
  } else {
    return at<kRegister - 1>(rest...);
  }
}

// Takes the steps that are left, then writes the results of element i.
template <class List, std::size_t... kR>
__attribute__((always_inline)) inline void steps(const Immediates* immediates, float* const* out,
                                                 std::int64_t i, std::index_sequence<kR...> results,
                                                 auto... registers) {
  constexpr std::size_t kStep = sizeof...(registers) - kInputs<List>;
  if constexpr (kStep < kSteps<List>) {
    constexpr ir::PrecompiledStep s = List::steps[kStep];
    const float next =
        apply<s.function>(at<s.x>(registers...), at<s.y>(registers...), immediates[kStep]);
    steps<List>(immediates, out, i, results, registers..., next);
  } else {
    ((out[kR][i] = at<List::results[kR]>(registers...)), ...);
  }
}

template <class List>
constexpr bool has_channels() {
  for (char kind : List::kinds) {
    if (kind == 'c') return true;
  }
  return false;
}

// A run of n elements. 'c' operands are read like 'v' if kChannelArrays, else like 's'.
template <class List, bool kChannelArrays, std::size_t... kI, std::size_t... kR>
__attribute__((always_inline)) inline void run(const float* const* in, float* const* out,
                                               const Immediates* immediates, std::int64_t n,
                                               std::index_sequence<kI...>,
                                               std::index_sequence<kR...> results) {
  constexpr auto is_array = [](std::size_t i) {
    return List::kinds[i] == 'v' || (List::kinds[i] == 'c' && kChannelArrays);
  };
  const float numbers[] = {(is_array(kI) ? 0.0f : *in[kI])...};
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    steps<List>(immediates, out, i, results, (is_array(kI) ? in[kI][i] : numbers[kI])...);
  }
}

// The run that starts `offset` elements into the results and at element `channel` of 'c' operands.
template <class List, bool kChannelArrays, std::size_t... kI, std::size_t... kR>
__attribute__((always_inline)) inline void run_at(const CompiledCall& call, std::int64_t offset,
                                                  std::int64_t channel, std::int64_t n,
                                                  std::index_sequence<kI...> inputs,
                                                  std::index_sequence<kR...> results) {
  const float* const in[] = {
      call.in[kI] + (List::kinds[kI] == 'v' ? offset : (List::kinds[kI] == 'c' ? channel : 0))...};
  float* const out[] = {call.out[kR] + offset...};
  run<List, kChannelArrays>(in, out, call.immediates, n, inputs, results);
}

template <class List>
void flat(const CompiledCall& call, std::int64_t begin, std::int64_t end) {
  run_at<List, false>(call, begin, 0, end - begin, std::make_index_sequence<kInputs<List>>{},
                      std::make_index_sequence<kResults<List>>{});
}

template <class List>
void by_channel(const CompiledCall& call, std::int64_t begin, std::int64_t end) {
  std::int64_t channel = begin % call.channels;
  for (std::int64_t unit = begin; unit < end; ++unit) {
    run_at<List, false>(call, unit * call.space, channel, call.space,
                        std::make_index_sequence<kInputs<List>>{},
                        std::make_index_sequence<kResults<List>>{});
    if (++channel == call.channels) channel = 0;
  }
}

// kLanes: known when compiling, or 0.
template <class List, std::int64_t kLanes>
inline void lanes(const CompiledCall& call, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = kLanes > 0 ? kLanes : call.lanes;
  std::int64_t position = begin % call.space;
  std::int64_t channel = begin / call.space % call.channels;
  for (std::int64_t unit = begin; unit < end; ++unit) {
    run_at<List, true>(call, unit * width, channel * width, width,
                       std::make_index_sequence<kInputs<List>>{},
                       std::make_index_sequence<kResults<List>>{});
    if (++position < call.space) continue;
    position = 0;
    if (++channel == call.channels) channel = 0;
  }
}

template <class List>
void by_lane(const CompiledCall& call, std::int64_t begin, std::int64_t end) {
  if (call.lanes == 16) return lanes<List, 16>(call, begin, end);
  if (call.lanes == 8) return lanes<List, 8>(call, begin, end);
  lanes<List, 0>(call, begin, end);
}

template <class List>
constexpr CompiledLoops loops_of() {
  if constexpr (has_channels<List>()) return {nullptr, by_channel<List>, by_lane<List>};
  return {flat<List>, nullptr, nullptr};
}

template <class... L>
constexpr std::array<CompiledLoops, sizeof...(L)> all_loops(ir::Lists<L...>) {
  return {loops_of<L>()...};
}

}  // namespace

const std::array<CompiledLoops, ir::count(ir::PrecompiledLists())> compiled_loops =
    all_loops(ir::PrecompiledLists());

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
