#pragma once

#include <cstdint>

namespace traingraph::cpu {

// Loops over one channel that lies in a run (`run`), or over channels side by side (`lanes`): rows
// of `lanes` channels, `stride` elements apart, with one coefficient per channel. Sums are added to
// what is there, in float lanes over short stretches and float64 beyond. A tensor's elements,
// behind `void`, are of float32, or of 16 bits, which are widened and rounded in registers.
struct ChannelRows {
  std::int64_t rows;    // of a run: its elements
  std::int64_t stride;  // of a run: 1
  std::int64_t lanes;   // of a run: 1
  // Results go past the caches: they are too many to be found there later, and a cache would read
  // each line before it is overwritten.
  bool streams = false;
  // Of a run: elements from here to one that is read later, which sums, and streams of results,
  // fetch meanwhile; 0: none, or no use.
  std::int64_t next = 0;
};

// first += Σ (x - shift), second += Σ (x - shift)²
using MomentSums = void (*)(ChannelRows where, const void* x, const float* shift, double* first,
                            double* second);

// y = (x - mean) scale + beta [+ z] [, relu]; z may be null
using Normalize = void (*)(ChannelRows where, const void* x, const void* z, void* y,
                           const float* mean, const float* scale, const float* beta, bool relu);

// joined = dy + added, or 0 where `result` (may be null) is 0 or less
using GradientJoin = void (*)(ChannelRows where, const void* dy, const void* added,
                              const void* result, void* joined);

// With g = dy, or 0 where `result` (may be null) is 0 or less: first += Σ g, second += Σ g (x -
// mean)
using GradientSums = void (*)(ChannelRows where, const void* dy, const void* x, const void* result,
                              const float* mean, double* first, double* second);

// dx = a ((g + c) + b (x - mean)): nothing where g is its own mean, and no factor is the square of
// an inverse deviation, which may be too small
using GradientApply = void (*)(ChannelRows where, const void* dy, const void* x, const void* result,
                               void* dx, const float* mean, const float* a, const float* b,
                               const float* c);

struct BatchNormForm {
  MomentSums moments;
  Normalize normalize;
  GradientJoin gradient_join;
  GradientSums gradient_sums;
  GradientApply gradient_apply;
};

// Of float32, float16 and bfloat16.
struct BatchNormLoops {
  BatchNormForm run[3];
  BatchNormForm lanes[3];
};

}  // namespace traingraph::cpu
