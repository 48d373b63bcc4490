/* How near the first two cores of this process are: prints nanoseconds in which a cache line goes
   from one to the other and back, and the share of its own rate that each has while both compute.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kTrips = 2000, kTurns = 200000, kChains = 10 };

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static cpu_set_t cores[2];
static struct {
  _Alignas(128) int turn;
} line;
static _Alignas(128) int ready;

static void meet(void) {
  const int round = (__atomic_fetch_add(&ready, 1, __ATOMIC_ACQ_REL) / 2 + 1) * 2;
  while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) < round) continue;
}

/* Independent chains keep the multipliers busy. */
static double compute(void) {
  float sums[kChains][8] = {{0}};
  const double start = seconds();
  for (int i = 0; i < kTurns; ++i) {
#pragma GCC unroll 10
    for (int k = 0; k < kChains; ++k) {
#pragma GCC unroll 8
      for (int lane = 0; lane < 8; ++lane) sums[k][lane] = sums[k][lane] * 0.5f + 1.0f;
    }
  }
  const double taken = seconds() - start;
  volatile float kept = 0;
  for (int k = 0; k < kChains; ++k) kept += sums[k][0];
  return taken;
}

static void* stand(void* place) {
  const int me = place != NULL;
  pthread_setaffinity_np(pthread_self(), sizeof cores[me], &cores[me]);
  meet();
  const double start = seconds();
  for (int i = 0; i < kTrips; ++i) {
    while (__atomic_load_n(&line.turn, __ATOMIC_ACQUIRE) != 2 * i + me) continue;
    __atomic_store_n(&line.turn, 2 * i + me + 1, __ATOMIC_RELEASE);
  }
  const double trip = (seconds() - start) / kTrips;
  meet();
  const double both = compute();
  meet();
  if (me == 0) printf("%.0f %.2f\n", trip * 1e9, compute() / both);
  meet();
  return NULL;
}

int main(void) {
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2) return 1;
  for (int cpu = 0, found = 0; found < 2; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    CPU_ZERO(&cores[found]);
    CPU_SET(cpu, &cores[found++]);
  }
  pthread_t other;
  if (pthread_create(&other, NULL, stand, &line) != 0) return 1;
  stand(NULL);
  pthread_join(other, NULL);
  return 0;
}
