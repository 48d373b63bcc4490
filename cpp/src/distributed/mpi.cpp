// MPI's point-to-point messages, by whichever of three binary interfaces the library has.
#include "distributed/mpi.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>

#include <traingraph/errors.h>

#include "distributed/mpi_library.h"
#include "runtime/threads/interruption.h"

namespace traingraph::distributed {
namespace {

constexpr int kTag = 7;
// MPI counts in int.
constexpr std::size_t kMostBytes = std::size_t{1} << 30;
constexpr std::chrono::microseconds kPatience{500}, kPause{20};

// Handle: a pointer, or MPICH's int. Of each function what we call.
template <class Handle>
struct Functions {
  int (*initialized)(int*);
  int (*finalized)(int*);
  int (*init_thread)(int*, char***, int, int*);
  int (*query_thread)(int*);
  int (*finalize)();
  int (*abort)(Handle, int);
  int (*comm_rank)(Handle, int*);
  int (*comm_size)(Handle, int*);
  int (*comm_dup)(Handle, Handle*);
  int (*set_errhandler)(Handle, Handle);
  int (*isend)(const void*, int, Handle, int, int, Handle, Handle*);
  int (*irecv)(void*, int, Handle, int, int, Handle, Handle*);
  int (*testall)(int, Handle*, int*, void*);
  int (*error_string)(int, char*, int*);
  int (*library_version)(char*, int*);

  explicit Functions(const MpiLibrary& library) {
    const auto take = [&library](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(library.symbol(name));
    };
    take(initialized, "MPI_Initialized");
    take(finalized, "MPI_Finalized");
    take(init_thread, "MPI_Init_thread");
    take(query_thread, "MPI_Query_thread");
    take(finalize, "MPI_Finalize");
    take(abort, "MPI_Abort");
    take(comm_rank, "MPI_Comm_rank");
    take(comm_size, "MPI_Comm_size");
    take(comm_dup, "MPI_Comm_dup");
    take(set_errhandler, "MPI_Comm_set_errhandler");
    take(isend, "MPI_Isend");
    take(irecv, "MPI_Irecv");
    take(testall, "MPI_Testall");
    take(error_string, "MPI_Error_string");
    take(library_version, "MPI_Get_library_version");
  }
};

// What MPI's headers define, for each library.
template <class Handle>
struct Constants {
  Handle comm_world, comm_self, byte, errors_return, no_request;
  void* ignored_statuses;
  int serialized, multiple;  // levels of threads
};

void* pointer(std::uintptr_t number) { return reinterpret_cast<void*>(number); }

Constants<void*> of_standard() {
  return {pointer(0x101), pointer(0x102), pointer(0x247), pointer(0x143),
          pointer(0x180), nullptr,        2048,           4096};
}

Constants<void*> of_open_mpi(const MpiLibrary& library) {
  return {library.symbol("ompi_mpi_comm_world"),
          library.symbol("ompi_mpi_comm_self"),
          library.symbol("ompi_mpi_byte"),
          library.symbol("ompi_mpi_errors_return"),
          library.symbol("ompi_request_null"),
          nullptr,
          2,
          3};
}

Constants<int> of_mpich() {
  return {0x44000000, 0x44000001, 0x4c00010d, 0x54000001, 0x2c000000, pointer(1), 2, 3};
}

// "Open MPI v5.0.11" of "Open MPI v5.0.11, package: …", "MPICH 5.0.2" of "MPICH
// Version:      5.0.2".
std::string name_in(std::string version) {
  version.erase(std::min(version.find_first_of(",\n"), version.size()));
  const std::size_t word = version.find("Version:");
  if (word == std::string::npos) return version;
  const std::size_t number = version.find_first_not_of(" \t", word + 8);
  return version.erase(word, std::min(number, version.size()) - word);
}

template <class Handle>
class Mpi final : public Transport {
 public:
  // Of the world where `of` is null.
  Mpi(const MpiLibrary& library, Constants<Handle> constants, const Handle* of)
      : call_(library), are_(constants), limit_(limit()) {
    begin(library.path, of == nullptr);
    check("MPI_Comm_dup", call_.comm_dup(of == nullptr ? are_.comm_world : *of, &ranks_));
    check("MPI_Comm_set_errhandler", call_.set_errhandler(ranks_, are_.errors_return));
    check("MPI_Comm_rank", call_.comm_rank(ranks_, &rank_));
    check("MPI_Comm_size", call_.comm_size(ranks_, &size_));
    requests_.resize(kOfRank * static_cast<std::size_t>(size_), are_.no_request);
    char version[8192] = {};  // the longest of any library
    int length = 0;
    call_.library_version(version, &length);
    engine_ = name_in(version);
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::string engine() const override { return engine_; }

  void exchange(const Header& own, Messages& messages) override {
    std::ranges::fill(messages.headers, own);
    own_ = own;
    for (int other = 0; other < size_; ++other) {
      if (other == rank_) continue;
      const auto r = static_cast<std::size_t>(other);
      receive(other, &messages.headers[r], sizeof(Header), request(r, 0));
      send(other, &own_, sizeof(Header), request(r, 1));
    }
    std::size_t longest = 0;
    for (const Part& part : messages.sends) longest = std::max(longest, part.length);
    for (const Part& part : messages.receives) longest = std::max(longest, part.length);
    std::size_t first = 0;
    do {
      post(messages, first);
      wait(messages);
      first += kMostBytes;
    } while (first < longest);
  }

  void send_failed(int rank) noexcept override {
    failure_ = {static_cast<std::uint64_t>(Call::failed) << 56, static_cast<std::uint64_t>(rank)};
    for (int other = 0; other < size_; ++other) {
      Handle sent = are_.no_request;  // with the process
      if (other == rank_) continue;
      call_.isend(&failure_, sizeof failure_, are_.byte, other, kTag, ranks_, &sent);
    }
  }

  // At the end of the process: the others learn of a failure by the launcher.
  void end(bool is_broken) {
    int is_over = 0;
    if (call_.finalized(&is_over) != 0 || is_over != 0) return;
    if (is_broken) call_.abort(ranks_, 1);
    if (!is_ours_) return;
    say_goodbye();
    call_.finalize();
  }

 private:
  // Each rank tells all others that it ends, and hears it of them. One that still waits for this
  // one in a step takes it for a failure.
  void say_goodbye() {
    failure_ = {static_cast<std::uint64_t>(Call::failed) << 56, static_cast<std::uint64_t>(rank_)};
    std::vector<Header> told(static_cast<std::size_t>(size_));
    for (int other = 0; other < size_; ++other) {
      if (other == rank_) continue;
      const auto r = static_cast<std::size_t>(other);
      call_.irecv(&told[r], sizeof(Header), are_.byte, other, kTag, ranks_, request(r, 0));
      call_.isend(&failure_, sizeof failure_, are_.byte, other, kTag, ranks_, request(r, 1));
    }
    const auto count = static_cast<int>(requests_.size());
    int done = 0;
    while (call_.testall(count, requests_.data(), &done, are_.ignored_statuses) == 0 && done == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void begin(const std::string& path, bool may_init) {
    int is_there = 0, level = 0;
    check("MPI_Initialized", call_.initialized(&is_there));
    if (is_there != 0) {
      check("MPI_Query_thread", call_.query_thread(&level));
    } else if (!may_init) {
      throw DistributedError(
          "[from_mpi] expected a program that has begun MPI but it has not; call MPI_Init_thread, "
          "or import mpi4py.MPI");
    } else {
      check("MPI_Init_thread", call_.init_thread(nullptr, nullptr, are_.multiple, &level));
      is_ours_ = true;
      // Errors of requests belong to one of these, and would end the process before it says why.
      for (const Handle of : {are_.comm_world, are_.comm_self}) {
        check("MPI_Comm_set_errhandler", call_.set_errhandler(of, are_.errors_return));
      }
    }
    if (level >= are_.serialized) return;
    throw DistributedError(
        "[distributed] expected MPI with MPI_THREAD_SERIALIZED or "
        "MPI_THREAD_MULTIPLE, because steps run in several threads, but " +
        path + " runs at a lower level; begin it with MPI_Init_thread");
  }

  std::string text_of(int code) const {
    char text[8192] = {};
    int length = 0;
    call_.error_string(code, text, &length);
    return text;
  }
  void check(const char* name, int code) const {
    if (code != 0) fail(name, code);
  }
  [[noreturn]] void fail(const char* name, int code) const {
    throw DistributedError("[distributed] expected success of " + std::string(name) +
                           " but got: " + text_of(code));
  }

  Handle* request(std::size_t rank, std::size_t k) { return &requests_[kOfRank * rank + k]; }

  void receive(int other, void* bytes, std::size_t length, Handle* request) {
    check("MPI_Irecv",
          call_.irecv(bytes, static_cast<int>(length), are_.byte, other, kTag, ranks_, request));
  }

  void send(int other, const void* bytes, std::size_t length, Handle* request) {
    check("MPI_Isend",
          call_.isend(bytes, static_cast<int>(length), are_.byte, other, kTag, ranks_, request));
  }

  void post(const Messages& messages, std::size_t first) {
    const auto rest = [first](const Part& part) {
      return std::min(part.length - std::min(first, part.length), kMostBytes);
    };
    for (std::size_t r = 0; r < messages.sends.size(); ++r) {
      const Part &sent = messages.sends[r], &received = messages.receives[r];
      const auto other = static_cast<int>(r);
      if (const std::size_t bytes = rest(received); bytes != 0) {
        receive(other, received.bytes + first, bytes, request(r, 2));
      }
      if (const std::size_t bytes = rest(sent); bytes != 0) {
        send(other, sent.bytes + first, bytes, request(r, 3));
      }
    }
  }

  // Bytes of another call may be too many: what the headers say comes first.
  void check_headers(const Messages& messages) const {
    for (std::size_t r = 0; r < messages.headers.size(); ++r) {
      check_agrees(r, messages.headers[r], own_);
    }
  }

  bool are_done(Handle* requests, std::size_t count, const Messages& messages) {
    int done = 0;
    const int code = call_.testall(static_cast<int>(count), requests, &done, are_.ignored_statuses);
    if (code != 0 || done != 0) check_headers(messages);
    if (code != 0) name_ended(code);
    return done != 0;
  }

  void wait(const Messages& messages) {
    const Clock::time_point start = Clock::now();
    Clock::time_point asked = start;
    for (int round = 1; !are_done(requests_.data(), requests_.size(), messages); ++round) {
      if (round % 64 != 0) continue;
      const Clock::time_point now = Clock::now();
      // What takes long may go on beside the gradient pass, and leaves it the processor.
      if (now - start < kPatience) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(kPause);
      }
      if (now - start > limit_) {
        check_silent(behind(messages), messages.sends.size(), now - start, limit_);
      }
      if (now - asked < kMoment) continue;
      asked = now;
      check_headers(messages);
      check_interrupted();
    }
  }

  // MPICH's messages of a rank that has ended fail, and those alone.
  [[noreturn]] void name_ended(int code) {
    for (std::size_t r = 0; r < static_cast<std::size_t>(size_); ++r) {
      int done = 0;
      if (call_.testall(kOfRank, request(r, 0), &done, are_.ignored_statuses) == 0) continue;
      tell_failed(static_cast<int>(r));
      throw DistributedError(text_of_failure(r, "has ended: " + text_of(code)));
    }
    fail("MPI_Testall", code);
  }

  // MPI gives back none of several requests that are tested together before all are done, so those
  // of each rank are tested by themselves.
  std::vector<std::size_t> behind(const Messages& messages) {
    std::vector<std::size_t> ranks;
    for (std::size_t r = 0; r < messages.sends.size(); ++r) {
      if (!are_done(request(r, 0), kOfRank, messages)) ranks.push_back(r);
    }
    return ranks;
  }

  const Functions<Handle> call_;
  const Constants<Handle> are_;
  const std::chrono::seconds limit_;
  bool is_ours_ = false;
  Handle ranks_ = {};
  int rank_ = 0, size_ = 1;
  std::string engine_;
  Header own_, failure_;
  // By rank: a header and bytes, received and sent.
  static constexpr std::size_t kOfRank = 4;
  std::vector<Handle> requests_;
};

// Ranks that are ended with the process.
template <class Handle>
std::shared_ptr<Ranks> known(std::unique_ptr<Mpi<Handle>> made) {
  struct Ended {
    Mpi<Handle>* transport;
    std::shared_ptr<Ranks> ranks;
  };
  static auto& all = *new std::vector<Ended>;  // for the life of the process
  Mpi<Handle>* const transport = made.get();
  const int rank = made->rank(), size = made->size();
  all.push_back({transport, make_ranks(rank, size, std::move(made))});
  if (all.size() == 1) {
    std::atexit([] {
      if (all.front().ranks->is_forked()) return;
      // One that is broken first: the others wait for this process.
      std::ranges::stable_sort(all, {}, [](const Ended& one) { return !one.ranks->is_broken(); });
      for (const Ended& one : all) one.transport->end(one.ranks->is_broken());
    });
  }
  return all.back().ranks;
}

template <class Handle>
std::shared_ptr<Ranks> connected(const MpiLibrary& library, Constants<Handle> constants,
                                 const std::uintptr_t* communicator) {
  if (communicator == nullptr) {
    return known(std::make_unique<Mpi<Handle>>(library, constants, nullptr));
  }
  const auto of = (Handle)*communicator;  // a pointer or an int
  return known(std::make_unique<Mpi<Handle>>(library, constants, &of));
}

std::shared_ptr<Ranks> connected(const MpiLibrary& library, const std::uintptr_t* communicator) {
  switch (library.abi) {
    case MpiAbi::standard:
      return connected(library, of_standard(), communicator);
    case MpiAbi::open_mpi:
      return connected(library, of_open_mpi(library), communicator);
    case MpiAbi::mpich:
      return connected(library, of_mpich(), communicator);
  }
  throw InternalError("[distributed] a binary interface outside the list");
}

}  // namespace

std::shared_ptr<Ranks> mpi_ranks(const Launch& launch) {
  const MpiLibrary library = find_mpi(launch.variable.starts_with("OMPI_"));
  std::shared_ptr<Ranks> ranks = connected(library, nullptr);
  if (ranks->size() == launch.size) return ranks;
  throw DistributedError("[distributed] expected " + std::to_string(launch.size) + " ranks, as " +
                         launch.variable + " says, but " + library.path + " (" + ranks->engine() +
                         ") has " + std::to_string(ranks->size()) +
                         "; start with the mpirun of that library, with srun --mpi=pmix, or set "
                         "TRAINGRAPH_MPI_LIBRARY to the launcher's library");
}

std::shared_ptr<Ranks> mpi_ranks(std::uintptr_t communicator) {
  return connected(find_mpi(false), &communicator);
}

}  // namespace traingraph::distributed
