// Starts and joins the threads that the OpenMP runtime would end the process for, with stacks of
// its size, and counts what kernels ask for.
#include "runtime/threads/team.h"

#if defined(_OPENMP)
#include <omp.h>
#endif
#if __has_include(<execinfo.h>)
#include <execinfo.h>
#endif
#include <pthread.h>
#include <sys/mman.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <latch>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <traingraph/errors.h>

namespace traingraph {
namespace {

#if __has_include(<execinfo.h>)
// The C library loads what unwinds stacks at the first exit of a thread, and ends the process where
// there is no memory for that by then. A backtrace loads it now.
[[maybe_unused]] const int unwinder = [] {
  void* frame[1];
  return backtrace(frame, 1);
}();
#endif

thread_local int noted = 1;

#if defined(_OPENMP)
thread_local int known = 1;

// As the OpenMP runtime reads it: a number, in units of 1024 bytes unless one of b, k, m and g
// follows. Nothing where it reads none.
std::optional<std::size_t> stack_bytes_of(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  char* end = nullptr;
  const unsigned long long number = std::strtoull(text, &end, 10);
  const auto skip_spaces = [&end] {
    while (*end != '\0' && std::string(" \t\n\v\f\r").find(*end) != std::string::npos) ++end;
  };
  if (end == text) return std::nullopt;
  skip_spaces();
  int shift = 10;
  if (*end != '\0') {
    const std::size_t unit = std::string("bkmgBKMG").find(*end++);
    if (unit == std::string::npos) return std::nullopt;
    shift = static_cast<int>(unit % 4) * 10;
    skip_spaces();
    if (*end != '\0') return std::nullopt;
  }
  if (number > std::numeric_limits<std::size_t>::max() >> shift) return std::nullopt;
  return static_cast<std::size_t>(number) << shift;
}

// Like OMP_NUM_THREADS read when the library is loaded, as the runtime does; 0: the usual size.
const std::size_t asked_stack_bytes = [] {
  const auto first = stack_bytes_of("OMP_STACKSIZE");
  return first ? *first : stack_bytes_of("GOMP_STACKSIZE").value_or(0);
}();

class Attributes {
 public:
  Attributes() {
    pthread_attr_init(&native_);
    // One that the system refuses leaves the usual size, for the runtime too.
    if (asked_stack_bytes > 0) pthread_attr_setstacksize(&native_, asked_stack_bytes);
  }
  ~Attributes() { pthread_attr_destroy(&native_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;

  const pthread_attr_t* native() const { return &native_; }
  bool finds_memory_for_a_stack() const {
    std::size_t bytes = 0;
    pthread_attr_getstacksize(&native_, &bytes);
    void* const stack =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) return false;
    munmap(stack, bytes);
    return true;
  }

 private:
  pthread_attr_t native_;
};

struct Member {
  pthread_t thread;
  std::latch* all;
  long id;  // of Linux
};

void* stand(void* of) {
  auto& member = *static_cast<Member*>(of);
#if defined(__linux__)
  member.id = syscall(SYS_gettid);
#endif
  member.all->wait();
  return nullptr;
}

// Linux counts a thread for a moment after it was joined.
void wait_until_gone([[maybe_unused]] const Member& member) {
#if defined(__linux__)
  constexpr int kMost = 10000;
  for (int k = 0; k < kMost && syscall(SYS_tgkill, getpid(), member.id, 0) == 0; ++k)
    std::this_thread::yield();
#endif
}

// Starts a team at once, and ends it.
void try_team(int threads) {
  std::latch all(1);
  std::vector<Member> team(static_cast<std::size_t>(threads - 1));
  const Attributes attributes;
  std::size_t made = 0;
  int failure = 0;
  for (; made < team.size() && failure == 0; made += failure == 0 ? 1 : 0) {
    team[made].all = &all;
    failure = pthread_create(&team[made].thread, attributes.native(), stand, &team[made]);
  }
  const bool finds_memory = failure == 0 || attributes.finds_memory_for_a_stack();
  all.count_down();
  for (std::size_t k = 0; k < made; ++k) pthread_join(team[k].thread, nullptr);
  for (std::size_t k = 0; k < made; ++k) wait_until_gone(team[k]);
  if (failure == 0) return;
  const std::string numbers = std::to_string(threads) + " threads but got " +
                              std::to_string(made + 1) + ": " +
                              std::error_code(failure, std::generic_category()).message();
  if (!finds_memory) throw OutOfMemory("[run] expected memory for " + numbers);
  throw DeviceError("[execute] expected to start a thread for each part of the work, " + numbers +
                    "; set_num_threads(1) needs none");
}

#endif

}  // namespace

#if defined(_OPENMP)
void expect_team(int threads) {
  if (threads <= known) return;
  if (omp_in_parallel() != 0 || omp_get_max_active_levels() < 1) return;  // it starts none
  const int team = std::min(threads, omp_get_thread_limit());
  if (team > known) {
    try_team(team);
    // The runtime takes them now: later the system may have none.
    const int is_dynamic = omp_get_dynamic();
    omp_set_dynamic(0);
#pragma omp parallel num_threads(team)
    static_cast<void>(team);
    omp_set_dynamic(is_dynamic);
  }
  known = threads;
}
#else
void expect_team(int) {}
#endif

void note_threads(int threads) { noted = std::max(noted, threads); }

NotedThreads::NotedThreads() : before_(noted) { noted = 1; }
NotedThreads::~NotedThreads() { noted = std::max(noted, before_); }
int NotedThreads::most() const { return noted; }

}  // namespace traingraph
