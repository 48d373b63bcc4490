// How a call of the program begins on all ranks, or on none.
#pragma once

#include <functional>
#include <string>
#include <utility>

namespace traingraph::distributed {

class Ranks;

// Where what it stands beside raises, the other ranks do, too, as soon as they wait for this one.
class RankGuard {
 public:
  explicit RankGuard(Ranks* ranks) : ranks_(ranks) {}  // null: one alone
  ~RankGuard();
  RankGuard(const RankGuard&) = delete;
  RankGuard& operator=(const RankGuard&) = delete;
  void done() { ranks_ = nullptr; }

 private:
  Ranks* ranks_;
};

// The line of each in which they begin to differ.
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b);

// `prepare` checks what this rank is given, without a call of ranks, and returns what has to be the
// same on all of them, a line for each. Where it raises on some ranks, these raise their own error,
// and the others a DistributedError that names one of them and its reason. Where a line differs,
// all raise InvalidArgument with both sides'. Then the ranks may go on: they have made one call.
// `call`: "fit". `ranks`: null for one alone.
void begin_together(Ranks* ranks, const std::string& call,
                    const std::function<std::string()>& prepare);

}  // namespace traingraph::distributed
