// The ranks of one program, as backends and their plugins see them.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace traingraph {

class Peers {
 public:
  virtual ~Peers() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // How long a rank may be silent.
  virtual std::chrono::seconds limit() const = 0;
  // The texts of all ranks; to be called by all of them, as each call that communicates.
  virtual std::vector<std::string> all_texts(const std::string& mine) = 0;
  // Why ranks cannot go on, or nothing. Never waits, and may be called by any thread.
  virtual std::string failure() noexcept = 0;
  // Lets the other ranks raise when they next wait for this one, and further calls here.
  virtual void abandon() noexcept = 0;
};

// The number by which the attributes of ops name them, in this process.
int number_peers();
// Makes them known by it, as long as somebody keeps them.
void make_known(int number, const std::shared_ptr<Peers>& peers);
// Raises InternalError where they are no longer there.
std::shared_ptr<Peers> peers_numbered(int number);

}  // namespace traingraph
