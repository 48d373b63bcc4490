// The transport without MPI: one TCP connection for each pair of ranks.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "distributed/socket.h"
#include "distributed/transport.h"

struct pollfd;

namespace traingraph::distributed {

class Sockets final : public Transport {
 public:
  // By rank; the own place is empty.
  Sockets(std::vector<Socket> sockets, std::chrono::seconds limit);
  ~Sockets() override;

  std::string engine() const override { return "sockets"; }
  void exchange(const Header& own, std::span<const Part> sends,
                std::span<const Part> receives) override;
  std::string failure() override;
  // Not those who are in the middle of a message of this one.
  void tell_failed(int rank) noexcept override;

 private:
  // Whether anything went. Raise for a rank that has ended, or is elsewhere.
  bool send_to(std::size_t rank, const Part& part);
  bool receive_from(std::size_t rank, const Part& part, const Header& own);
  void wait(std::span<const Part> sends, std::span<const Part> receives);
  [[noreturn]] void fail_of(std::size_t rank, const std::string& how);

  std::vector<Socket> sockets_;
  const std::chrono::seconds limit_;
  std::vector<std::size_t> sent_, received_;  // bytes of the exchange
  std::vector<bool> is_amid_;                 // sending a message
  std::vector<pollfd> waited_;
};

}  // namespace traingraph::distributed
