// The exchange of what ranks are given, or of why they refuse it.
#include "distributed/beginning.h"

#include <algorithm>
#include <exception>
#include <vector>

#include <traingraph/errors.h>

#include "distributed/ranks.h"

namespace traingraph::distributed {
namespace {

constexpr char kBegins = '+', kRefuses = '-';  // before the lines, or the reason

void check_all_begin(const std::string& call, const std::vector<std::string>& said) {
  for (std::size_t r = 0; r < said.size(); ++r) {
    if (said[r].front() == kBegins) continue;
    throw DistributedError("[" + call + "] expected all ranks to begin but rank " +
                           std::to_string(r) + " refuses: " + said[r].substr(1));
  }
  for (std::size_t r = 1; r < said.size(); ++r) {
    if (said[r] == said[0]) continue;
    const auto [first, other] = first_difference(said[0].substr(1), said[r].substr(1));
    throw InvalidArgument("[" + call + "] expected one " + call + " on all ranks but got " + first +
                          " on rank 0 and " + other + " on rank " + std::to_string(r) +
                          "; all ranks need the same arrays, arguments and files");
  }
}

}  // namespace

std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
  const auto differ = std::ranges::mismatch(a, b).in1 - a.begin();
  const std::size_t first = a.substr(0, static_cast<std::size_t>(differ)).rfind('\n') + 1;
  const auto line_of = [first](const std::string& text) {
    return text.substr(first, text.find('\n', first) - first);
  };
  return {line_of(a), line_of(b)};
}

RankGuard::~RankGuard() {
  if (ranks_ != nullptr) ranks_->abandon();
}

void begin_together(Ranks* ranks, const std::string& call,
                    const std::function<std::string()>& prepare) {
  std::string own;
  std::exception_ptr refused;
  try {
    own = kBegins + call + "\n" + prepare();
  } catch (const Error& error) {
    own = kRefuses + std::string(error.what());
    refused = std::current_exception();
  } catch (...) {
    // Of the program, or what ends a wait: it does not wait for the others.
    if (ranks != nullptr) ranks->abandon();
    throw;
  }
  std::vector<std::string> said{own};
  try {
    if (ranks != nullptr) said = ranks->all_texts(own, Call::begin);
  } catch (...) {
    if (refused == nullptr) throw;
  }
  if (refused != nullptr) std::rethrow_exception(refused);
  check_all_begin(call, said);
}

}  // namespace traingraph::distributed
