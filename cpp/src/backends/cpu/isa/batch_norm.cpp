// Batch norm loops, for channels in runs and channels side by side: moments, normalization with add
// and ReLU, gradient sums, and the gradient of x.
#include "backends/cpu/isa/batch_norm.h"

#include <type_traits>

#include "backends/cpu/isa/half_vector.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {
namespace {

// The two terms that one element adds.
template <class T>
struct Moments {
  const T* x;

  template <class Read>
  TRAINGRAPH_INLINE void terms(std::int64_t at, Vector shift, const Read& read, Vector& first,
                               Vector& second) const {
    const Vector d = read(x + at) - shift;
    first = d;
    second = d * d;
  }
  TRAINGRAPH_INLINE void fetch(std::int64_t at) const { __builtin_prefetch(x + at, 0, 2); }
};

template <bool kMasked, class T>
struct Gradients {
  const T* dy;
  const T* x;
  const T* result;

  template <class Read>
  TRAINGRAPH_INLINE void terms(std::int64_t at, Vector mean, const Read& read, Vector& first,
                               Vector& second) const {
    Vector g = read(dy + at);
    if constexpr (kMasked) g = read(result + at) <= 0.0f ? Vector{} : g;
    first = g;
    second = g * (read(x + at) - mean);
  }
  TRAINGRAPH_INLINE void fetch(std::int64_t at) const {
    __builtin_prefetch(dy + at, 0, 2);
    __builtin_prefetch(x + at, 0, 2);
    if constexpr (kMasked) __builtin_prefetch(result + at, 0, 2);
  }
};

struct ReadAll {
  template <class T>
  TRAINGRAPH_INLINE Vector operator()(const T* x) const {
    return load(x);
  }
};
struct ReadPart {
  const Partial& part;
  template <class T>
  TRAINGRAPH_INLINE Vector operator()(const T* x) const {
    return load(x, part);
  }
};

// Whether a vector's elements begin a cache line where the first vector's do.
template <class T>
constexpr bool begins_line(int vector) {
  return vector * kLanes * static_cast<int>(sizeof(T)) % 64 == 0;
}

template <class T, class Terms>
TRAINGRAPH_INLINE void sum_run(const Terms& terms, ChannelRows where, float number, double* first,
                               double* second) {
  constexpr int kSets = 4;
  const std::int64_t n = where.rows;
  const Vector shift = splat(number);
  double sum1 = 0, sum2 = 0;
  std::int64_t at = 0;
  while (at < n) {
    Vector s1[kSets]{}, s2[kSets]{};
    Vector t1, t2;
    std::int64_t end = at + kStretch * kSets * kLanes;
    if (end > n) end = n;
    for (; at + kSets * kLanes <= end; at += kSets * kLanes) {
#pragma GCC unroll 4
      for (int k = 0; k < kSets; ++k) {
        if (begins_line<T>(k) && where.next != 0) terms.fetch(at + k * kLanes + where.next);
        terms.terms(at + k * kLanes, shift, ReadAll{}, t1, t2);
        s1[k] += t1;
        s2[k] += t2;
      }
    }
    for (; at + kLanes <= end; at += kLanes) {
      terms.terms(at, shift, ReadAll{}, t1, t2);
      s1[0] += t1;
      s2[0] += t2;
    }
    if (at < end) {
      const Partial rest(end - at);
      terms.terms(at, shift, ReadPart{rest}, t1, t2);
      s1[1] += rest.keep(t1);
      s2[1] += rest.keep(t2);
      at = end;
    }
    sum1 += static_cast<double>(sum_of((s1[0] + s1[1]) + (s1[2] + s1[3])));
    sum2 += static_cast<double>(sum_of((s2[0] + s2[1]) + (s2[2] + s2[3])));
  }
  *first += sum1;
  *second += sum2;
}

// kVectors vectors of channels, the last one only in part if `part` says so.
template <int kVectors, class Terms, class Read>
TRAINGRAPH_INLINE void sum_lane_group(const Terms& terms, std::int64_t rows, std::int64_t stride,
                                      const float* numbers, const Read& read, int filled,
                                      double* first, double* second) {
  Vector shift[kVectors];
  for (int v = 0; v < kVectors; ++v) shift[v] = read(numbers + v * kLanes);
  std::int64_t at = 0;
  while (rows > 0) {
    const std::int64_t stretch = rows < kStretch ? rows : kStretch;
    Vector s1[kVectors]{}, s2[kVectors]{};
    for (std::int64_t r = 0; r < stretch; ++r, at += stride) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        Vector t1, t2;
        terms.terms(at + v * kLanes, shift[v], read, t1, t2);
        s1[v] += t1;
        s2[v] += t2;
      }
    }
    rows -= stretch;
    float lanes1[kVectors * kLanes], lanes2[kVectors * kLanes];
    for (int v = 0; v < kVectors; ++v) {
      store(lanes1 + v * kLanes, s1[v]);
      store(lanes2 + v * kLanes, s2[v]);
    }
    for (int j = 0; j < filled; ++j) first[j] += static_cast<double>(lanes1[j]);
    for (int j = 0; j < filled; ++j) second[j] += static_cast<double>(lanes2[j]);
  }
}

template <class MakeTerms>
TRAINGRAPH_INLINE void sum_lanes(const MakeTerms& terms_at, ChannelRows where, const float* numbers,
                                 double* first, double* second) {
  std::int64_t j = 0;
  for (; j + 4 * kLanes <= where.lanes; j += 4 * kLanes) {
    sum_lane_group<4>(terms_at(j), where.rows, where.stride, numbers + j, ReadAll{}, 4 * kLanes,
                      first + j, second + j);
  }
  for (; j + kLanes <= where.lanes; j += kLanes) {
    sum_lane_group<1>(terms_at(j), where.rows, where.stride, numbers + j, ReadAll{}, kLanes,
                      first + j, second + j);
  }
  if (j < where.lanes) {
    const Partial rest(where.lanes - j);
    sum_lane_group<1>(terms_at(j), where.rows, where.stride, numbers + j, ReadPart{rest},
                      static_cast<int>(where.lanes - j), first + j, second + j);
  }
}

template <bool kRun, class T>
void moments(ChannelRows where, const void* x_, const float* shift, double* first, double* second) {
  const T* const x = static_cast<const T*>(x_);
  if constexpr (kRun) {
    sum_run<T>(Moments<T>{x}, where, *shift, first, second);
  } else {
    sum_lanes([&](std::int64_t j) { return Moments<T>{x + j}; }, where, shift, first, second);
  }
}

template <bool kMasked, bool kRun, class T>
void sum_gradients(ChannelRows where, Gradients<kMasked, T> of, const float* mean, double* first,
                   double* second) {
  if constexpr (kRun) {
    sum_run<T>(of, where, *mean, first, second);
  } else {
    sum_lanes(
        [&](std::int64_t j) {
          return Gradients<kMasked, T>{of.dy + j, of.x + j, kMasked ? of.result + j : nullptr};
        },
        where, mean, first, second);
  }
}

template <bool kRun, class T>
void gradient_sums(ChannelRows where, const void* dy_, const void* x_, const void* result_,
                   const float* mean, double* first, double* second) {
  const T *const dy = static_cast<const T*>(dy_), *const x = static_cast<const T*>(x_);
  const T* const result = static_cast<const T*>(result_);
  if (result != nullptr) {
    return sum_gradients<true, kRun, T>(where, {dy, x, result}, mean, first, second);
  }
  sum_gradients<false, kRun, T>(where, {dy, x, nullptr}, mean, first, second);
}

// Writes value(element, read) over a run.
template <class T, class Value>
TRAINGRAPH_INLINE void write_run(ChannelRows where, T* to, const Value& value) {
  std::int64_t i = 0;
  if (where.streams) {
    while (i < where.rows && !is_aligned(to + i)) {
      const Partial one(1);
      store(to + i, value(i, ReadPart{one}), one);
      ++i;
    }
    for (; i + kLanes <= where.rows; i += kLanes) {
      if constexpr (requires { value.fetch(i); }) {
        if (where.next != 0) value.fetch(i + where.next);
      }
      stream(to + i, value(i, ReadAll{}));
    }
    finish_streaming();
  } else {
    for (; i + kLanes <= where.rows; i += kLanes) store(to + i, value(i, ReadAll{}));
  }
  if (i < where.rows) {
    const Partial rest(where.rows - i);
    store(to + i, value(i, ReadPart{rest}), rest);
  }
}

// Writes rows of kVectors vectors of channels. make_value(channel, read) holds the coefficients of
// one vector; what it makes is value(element, read).
template <int kVectors, class T, class MakeValue>
TRAINGRAPH_INLINE void write_lane_group(ChannelRows where, T* to, std::int64_t channel,
                                        const MakeValue& make_value) {
  using Value = decltype(make_value(channel, ReadAll{}));
  auto group = [&]<int... kV>(std::integer_sequence<int, kV...>) __attribute__((always_inline)) {
    const Value values[] = {make_value(channel + kV * kLanes, ReadAll{})...};
    std::int64_t at = channel;
    if (where.streams && is_aligned(to + channel) && where.stride % kLanes == 0) {
      for (std::int64_t r = 0; r < where.rows; ++r, at += where.stride) {
        (stream(to + at + kV * kLanes, values[kV](at + kV * kLanes, ReadAll{})), ...);
      }
      finish_streaming();
      return;
    }
    for (std::int64_t r = 0; r < where.rows; ++r, at += where.stride) {
      (store(to + at + kV * kLanes, values[kV](at + kV * kLanes, ReadAll{})), ...);
    }
  };
  group(std::make_integer_sequence<int, kVectors>{});
}

template <class T, class MakeValue>
TRAINGRAPH_INLINE void write_lanes(ChannelRows where, T* to, const MakeValue& make_value) {
  std::int64_t j = 0;
  for (; j + 4 * kLanes <= where.lanes; j += 4 * kLanes) {
    write_lane_group<4>(where, to, j, make_value);
  }
  for (; j + kLanes <= where.lanes; j += kLanes) write_lane_group<1>(where, to, j, make_value);
  if (j < where.lanes) {
    const Partial rest(where.lanes - j);
    const ReadPart read{rest};
    const auto value = make_value(j, read);
    std::int64_t at = j;
    for (std::int64_t r = 0; r < where.rows; ++r, at += where.stride) {
      store(to + at, value(at, read), rest);
    }
  }
}

template <bool kRun, class T, class MakeValue>
TRAINGRAPH_INLINE void write_all(ChannelRows where, void* to, const MakeValue& make_value) {
  if constexpr (kRun) {
    struct Repeat {
      TRAINGRAPH_INLINE Vector operator()(const float* x) const { return splat(*x); }
    };
    write_run(where, static_cast<T*>(to), make_value(0, Repeat{}));
  } else {
    write_lanes(where, static_cast<T*>(to), make_value);
  }
}

template <bool kAdds, bool kRelu, class T>
struct Normalized {
  const T* x;
  const T* z;
  Vector mean, scale, beta;

  template <class Read>
  TRAINGRAPH_INLINE Vector operator()(std::int64_t i, const Read& read) const {
    Vector y = (read(x + i) - mean) * scale + beta;
    if constexpr (kAdds) y += read(z + i);
    return kRelu ? (y < 0.0f ? Vector{} : y) : y;
  }
  TRAINGRAPH_INLINE void fetch(std::int64_t at) const { __builtin_prefetch(x + at, 0, 2); }
};

template <bool kAdds, bool kRelu, bool kRun, class T>
void normalize_as(ChannelRows where, const T* x, const T* z, void* y, const float* mean,
                  const float* scale, const float* beta) {
  write_all<kRun, T>(
      where, y, [=](std::int64_t j, const auto& read) __attribute__((always_inline)) {
        return Normalized<kAdds, kRelu, T>{x, z, read(mean + j), read(scale + j), read(beta + j)};
      });
}

template <bool kRun, class T>
void normalize(ChannelRows where, const void* x_, const void* z_, void* y, const float* mean,
               const float* scale, const float* beta, bool relu) {
  const T *const x = static_cast<const T*>(x_), *const z = static_cast<const T*>(z_);
  if (z != nullptr) {
    return relu ? normalize_as<true, true, kRun>(where, x, z, y, mean, scale, beta)
                : normalize_as<true, false, kRun>(where, x, z, y, mean, scale, beta);
  }
  return relu ? normalize_as<false, true, kRun>(where, x, z, y, mean, scale, beta)
              : normalize_as<false, false, kRun>(where, x, z, y, mean, scale, beta);
}

template <bool kMasked, class T>
struct Joined {
  const T* dy;
  const T* added;
  const T* result;

  template <class Read>
  TRAINGRAPH_INLINE Vector operator()(std::int64_t i, const Read& read) const {
    const Vector g = read(dy + i) + read(added + i);
    if constexpr (kMasked) return read(result + i) <= 0.0f ? Vector{} : g;
    return g;
  }
};

template <bool kRun, class T>
void gradient_join(ChannelRows where, const void* dy, const void* added, const void* result,
                   void* joined) {
  const auto join = [&]<bool kMasked>(std::bool_constant<kMasked>) {
    const Joined<kMasked, T> value{static_cast<const T*>(dy), static_cast<const T*>(added),
                                   static_cast<const T*>(result)};
    write_all<kRun, T>(where, joined,
                       [=](std::int64_t, const auto&)
                           __attribute__((always_inline)) { return value; });
  };
  result != nullptr ? join(std::true_type{}) : join(std::false_type{});
}

template <bool kMasked, class T>
struct Applied {
  const T* dy;
  const T* x;
  const T* result;
  Vector mean, a, b, c;

  template <class Read>
  TRAINGRAPH_INLINE Vector operator()(std::int64_t i, const Read& read) const {
    Vector g = read(dy + i);
    if constexpr (kMasked) g = read(result + i) <= 0.0f ? Vector{} : g;
    return a * ((g + c) + b * (read(x + i) - mean));
  }
};

template <bool kRun, class T>
void gradient_apply(ChannelRows where, const void* dy_, const void* x_, const void* result_,
                    void* dx, const float* mean, const float* a, const float* b, const float* c) {
  const T *const dy = static_cast<const T*>(dy_), *const x = static_cast<const T*>(x_);
  const T* const result = static_cast<const T*>(result_);
  const auto apply = [&]<bool kMasked>(std::bool_constant<kMasked>) {
    write_all<kRun, T>(where, dx,
                       [=](std::int64_t j, const auto& read) __attribute__((always_inline)) {
                         return Applied<kMasked, T>{
                             dy, x, result, read(mean + j), read(a + j), read(b + j), read(c + j)};
                       });
  };
  result != nullptr ? apply(std::true_type{}) : apply(std::false_type{});
}

template <bool kRun, class T>
constexpr BatchNormForm kForm{moments<kRun, T>, normalize<kRun, T>, gradient_join<kRun, T>,
                              gradient_sums<kRun, T>, gradient_apply<kRun, T>};

}  // namespace

extern const BatchNormLoops batch_norm_loops;
const BatchNormLoops batch_norm_loops{
    {kForm<true, float>, kForm<true, Float16>, kForm<true, BFloat16>},
    {kForm<false, float>, kForm<false, Float16>, kForm<false, BFloat16>}};

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
