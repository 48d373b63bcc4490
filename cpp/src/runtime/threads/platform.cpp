// Settings of the process: random seed, thread count, version and backends.
#if defined(_OPENMP)
#include <omp.h>
#endif

#include <atomic>
#include <cstdlib>
#include <mutex>

#include <traingraph/device.h>
#include <traingraph/errors.h>
#include <traingraph/mutex.h>

#include "runtime/backend.h"
#include "runtime/numbers/random.h"

namespace traingraph {
namespace {

Mutex seed_mutex;
std::optional<std::uint64_t> seed;
std::uint64_t streams_drawn = 0;

std::atomic<int> threads{0};

#if defined(_OPENMP)
// What OMP_NUM_THREADS asks for, as the OpenMP runtime read it; 0 where it is not set. Taken when
// the library is loaded: later the number may be what another package or oneDNN's calls have set.
const int asked_threads = std::getenv("OMP_NUM_THREADS") != nullptr ? omp_get_max_threads() : 0;

int available_threads() { return asked_threads > 0 ? asked_threads : omp_get_num_procs(); }
#else
// Without OpenMP the CPU backend works on one thread.
int available_threads() { return 1; }
#endif

// Used until the program sets a seed: runs are repeatable by default.
constexpr std::uint64_t kDefaultSeed = 0x7261696e67726170ull;

}  // namespace

void Platform::set_rng_seed(std::uint64_t value) {
  const std::lock_guard lock(seed_mutex);
  seed = value;
  streams_drawn = 0;
}

std::optional<std::uint64_t> Platform::rng_seed() {
  const std::lock_guard lock(seed_mutex);
  return seed;
}

std::uint64_t current_random_seed() {
  const std::lock_guard lock(seed_mutex);
  return seed.value_or(kDefaultSeed);
}

std::uint64_t next_random_stream() {
  const std::lock_guard lock(seed_mutex);
  return seed.value_or(kDefaultSeed) * 0x9e3779b97f4a7c15ull + ++streams_drawn;
}

void Platform::set_thread_count(int count) {
  if (count < 1) {
    throw InvalidArgument("[threads] expected at least 1 thread but got " + std::to_string(count));
  }
  threads = count;
}

int Platform::thread_count() {
  const int chosen = threads;
  return chosen > 0 ? chosen : available_threads();
}

std::string Platform::version() { return TRAINGRAPH_VERSION; }

std::vector<std::string> Platform::backends() {
  std::vector<std::string> names;
  for (const Backend* backend : traingraph::backends()) names.push_back(backend->name());
  return names;
}

}  // namespace traingraph
