// The meeting of ranks: greetings, the table of addresses, and a connection for each pair.
#include "distributed/rendezvous.h"

#include <cstring>
#include <string>

#include <traingraph/device.h>
#include <traingraph/errors.h>

namespace traingraph::distributed {
namespace {

constexpr std::uint64_t kMagic = 0x5249'4e47'5452'4701;

constexpr std::uint32_t kNobody = 0;  // is missing, as rank 0 says it, who is there
constexpr std::chrono::seconds kGrace{2};

// What a rank says first, to rank 0 and to each rank before it.
struct Hello {
  std::uint64_t magic = kMagic;
  std::int32_t rank = 0, size = 0;
  std::uint32_t port = 0;
  char version[36] = {};
};

// Where a rank listens.
struct Place {
  char host[64] = {};
  std::uint32_t port = 0;
};

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

class Meeting {
 public:
  Meeting(int rank, int size, const Address& master, std::chrono::seconds limit)
      : master_(master),
        limit_(limit),
        sockets_(static_cast<std::size_t>(size)),
        places_(static_cast<std::size_t>(size)) {
    own_.rank = rank;
    own_.size = size;
    const std::string version = TRAINGRAPH_VERSION;
    version.copy(own_.version, sizeof own_.version - 1);
  }

  std::vector<Socket> meet() {
    if (own_.rank == 0) {
      gather();
    } else {
      join();
      connect_pairs();
    }
    return std::move(sockets_);
  }

 private:
  std::vector<std::byte> table() {
    std::vector<std::byte> bytes(places_.size() * sizeof(Place));
    std::memcpy(bytes.data(), places_.data(), bytes.size());
    return bytes;
  }

  // The first one, from this one on, that has not come.
  std::size_t missing_from(std::size_t rank) const {
    while (sockets_[rank].is_open()) ++rank;
    return rank;
  }

  [[noreturn]] void fail_of(std::size_t rank) const {
    throw DistributedError("[distributed] expected rank " + std::to_string(rank) + " of " +
                           std::to_string(own_.size) + " within " + std::to_string(limit_.count()) +
                           " s but it has not come; start all ranks, with one MASTER_ADDR, "
                           "MASTER_PORT and WORLD_SIZE, or set TRAINGRAPH_DISTRIBUTED_LIMIT");
  }

  // Takes a connection with a hello; others, as of a scanner of ports, are closed.
  Socket accept_rank(const Socket& listening, Hello& hello, std::string& host) {
    while (Clock::now() < deadline_) {
      Socket socket = accept_from(listening, deadline_, host);
      if (!socket.is_open() || !receive_all(socket, bytes_of(hello), deadline_)) continue;
      if (hello.magic == kMagic) return socket;
    }
    return {};
  }

  void check(const Hello& hello) const {
    std::string got;
    if (std::strncmp(hello.version, own_.version, sizeof own_.version) != 0) {
      got = "version " + std::string(hello.version) + " beside version " + own_.version;
    } else if (hello.size != own_.size) {
      got = "WORLD_SIZE " + std::to_string(hello.size) + " beside " + std::to_string(own_.size);
    } else if (hello.rank < 1 || hello.rank >= own_.size ||
               sockets_[static_cast<std::size_t>(hello.rank)].is_open()) {
      got = "RANK " + std::to_string(hello.rank) + " twice or outside the world";
    } else {
      return;
    }
    throw InvalidArgument("[distributed] expected ranks of one version and one world but got " +
                          got);
  }

  void gather() {
    const Socket listening = listen_at({"", master_.port});
    for (int left = own_.size - 1; left > 0; --left) {
      Hello hello;
      std::string host;
      Socket socket = accept_rank(listening, hello, host);
      if (!socket.is_open()) fail_of_missing();
      // Before anything is refused, so that the other one can tell, too.
      send_all(socket, bytes_of(own_), deadline_);
      check(hello);
      const auto rank = static_cast<std::size_t>(hello.rank);
      host.copy(places_[rank].host, sizeof places_[rank].host - 1);
      places_[rank].port = hello.port;
      sockets_[rank] = std::move(socket);
    }
    for (std::size_t r = 1; r < sockets_.size(); ++r) {
      if (!tell(r, kNobody) || !send_all(sockets_[r], table(), deadline_)) fail_of(r);
    }
  }

  bool tell(std::size_t rank, std::uint32_t missing) {
    return send_all(sockets_[rank], bytes_of(missing), Clock::now() + kGrace);
  }

  // Those that have come wait for rank 0 and do not see who else is missing.
  [[noreturn]] void fail_of_missing() {
    const std::size_t missing = missing_from(1);
    for (std::size_t r = 1; r < sockets_.size(); ++r) {
      if (sockets_[r].is_open()) tell(r, static_cast<std::uint32_t>(missing));
    }
    fail_of(missing);
  }

  void join() {
    listening_ = listen_at({"", 0});
    own_.port = port_of(listening_);
    Socket socket = connect_to(master_, deadline_);
    Hello hello;
    if (!send_all(socket, bytes_of(own_), deadline_) ||
        !receive_all(socket, bytes_of(hello), deadline_)) {
      fail_of(0);
    }
    if (hello.magic != kMagic || hello.rank != 0) {
      throw DistributedError("[distributed] expected rank 0 at " + master_.host + ":" +
                             std::to_string(master_.port) + " but got another program's answer");
    }
    hello.rank = own_.rank;  // its own is right
    check(hello);
    // Rank 0 has begun by now, and waits for the others as long as this one for it.
    deadline_ = Clock::now() + limit_ + kGrace;
    std::uint32_t missing = kNobody;
    std::vector<std::byte> bytes = table();
    const bool has_heard = receive_all(socket, bytes_of(missing), deadline_);
    if (has_heard && missing != kNobody) fail_of(missing);
    if (!has_heard || !receive_all(socket, bytes, deadline_)) {
      throw DistributedError(
          "[distributed] expected rank 0 to tell where the others are but it has ended, or was "
          "silent; what it shows says more");
    }
    std::memcpy(places_.data(), bytes.data(), bytes.size());
    sockets_[0] = std::move(socket);
  }

  // Each rank to those between rank 0 and it.
  void connect_pairs() {
    const auto own = static_cast<std::size_t>(own_.rank);
    for (std::size_t r = 1; r < own; ++r) {
      sockets_[r] =
          connect_to({places_[r].host, static_cast<std::uint16_t>(places_[r].port)}, deadline_);
      if (!send_all(sockets_[r], bytes_of(own_), deadline_)) fail_of(r);
    }
    for (std::size_t left = sockets_.size() - own - 1; left > 0; --left) {
      Hello hello;
      std::string host;
      Socket socket = accept_rank(listening_, hello, host);
      if (!socket.is_open()) fail_of(missing_from(own + 1));
      check(hello);
      sockets_[static_cast<std::size_t>(hello.rank)] = std::move(socket);
    }
  }

  const Address master_;
  const std::chrono::seconds limit_;
  Clock::time_point deadline_ = Clock::now() + limit_;
  Hello own_;
  Socket listening_;
  std::vector<Socket> sockets_;
  std::vector<Place> places_;
};

}  // namespace

std::vector<Socket> connect_ranks(int rank, int size, const Address& master,
                                  std::chrono::seconds limit) {
  return Meeting(rank, size, master, limit).meet();
}

}  // namespace traingraph::distributed
