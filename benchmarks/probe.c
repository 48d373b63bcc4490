/* What one thread, or several, can compute and move: prints GFLOP/s and GB/s. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __AVX512F__
enum { kBytes = 64 };
#elif defined(__AVX__)
enum { kBytes = 32 };
#else
enum { kBytes = 16 };
#endif
#ifdef __AVX__
#include <immintrin.h>
#endif

typedef float vector __attribute__((vector_size(kBytes)));
enum { kLanes = kBytes / 4, kChains = 12, kTurns = 500000, kFloats = 1 << 23 };

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Twelve independent chains hide the latency of a multiply-add. */
static void* compute(void* result) {
  vector sums[kChains], factor, term;
  for (int lane = 0; lane < kLanes; ++lane) {
    factor[lane] = 0.5f, term[lane] = 1.0f;
    for (int k = 0; k < kChains; ++k) sums[k][lane] = (float)k;
  }
  for (int i = 0; i < kTurns; ++i) {
#pragma GCC unroll 12
    for (int k = 0; k < kChains; ++k) sums[k] = sums[k] * factor + term;
  }
  for (int k = 1; k < kChains; ++k) sums[0] += sums[k];
  *(float*)result = sums[0][0];
  return NULL;
}

/* r = x + 0.5 y over an arrays of its own, past the caches where the machine can write so. */
static float* arrays[256];
static void* move(void* place) {
  const float* const x = *(float**)place;
  const float* const y = x + kFloats;
  float* const r = (float*)y + kFloats;
#ifdef __AVX__
  const __m256 half = _mm256_set1_ps(0.5f);
  for (int i = 0; i < kFloats; i += 8) {
    const __m256 product = _mm256_mul_ps(half, _mm256_load_ps(y + i));
    _mm256_stream_ps(r + i, _mm256_add_ps(_mm256_load_ps(x + i), product));
  }
#else
  for (int i = 0; i < kFloats; ++i) r[i] = x[i] + 0.5f * y[i];
#endif
  return NULL;
}

/* The shortest of several runs: what else the machine does only takes away. */
static double shortest(void* (*body)(void*), int threads) {
  pthread_t thread[256];
  static float results[256];
  double best = 1e9;
  for (int run = 0; run < 60; ++run) {
    const double start = seconds();
    for (int t = 1; t < threads; ++t) {
      void* const place = body == move ? (void*)&arrays[t] : (void*)&results[t];
      if (pthread_create(&thread[t], NULL, body, place)) exit(1);
    }
    body(body == move ? (void*)&arrays[0] : (void*)&results[0]);
    for (int t = 1; t < threads; ++t) pthread_join(thread[t], NULL);
    const double taken = seconds() - start;
    if (taken < best) best = taken;
  }
  return best;
}

int main(int count, char** words) {
  const int threads = count > 1 ? atoi(words[1]) : 1;
  if (threads < 1 || threads > 256) return 1;
  const double operations = 2.0 * kTurns * kChains * kLanes * threads;
  printf("%.1f ", operations / shortest(compute, threads) / 1e9);
  for (int t = 0; t < threads; ++t) {
    if (posix_memalign((void**)&arrays[t], 64, 3ul * kFloats * sizeof(float))) return 1;
    memset(arrays[t], 0, 3ul * kFloats * sizeof(float));
  }
  printf("%.1f\n", 12.0 * kFloats * threads / shortest(move, threads) / 1e9);
  return 0;
}
