// Compiled programs of one owner, the newest use first.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <utility>

namespace traingraph {

// Beyond the limit the program that was unused for longest goes.
template <class Compiled>
class LruPrograms {
 public:
  using Pointer = std::shared_ptr<Compiled>;
  explicit LruPrograms(std::size_t limit) : limit_(limit) {}

  // The first one that matches, which becomes the newest; null without one.
  template <class Matches>
  Pointer find(const Matches& matches) {
    for (auto it = programs_.begin(); it != programs_.end(); ++it) {
      if (!matches(**it)) continue;
      if (it != programs_.begin()) programs_.splice(programs_.begin(), programs_, it);
      return programs_.front();
    }
    return nullptr;
  }
  void add(Pointer program) {
    programs_.push_front(std::move(program));
    if (programs_.size() > limit_) programs_.pop_back();
  }
  void remove(const Pointer& program) { programs_.remove(program); }
  void clear() { programs_.clear(); }
  auto begin() const { return programs_.begin(); }
  auto end() const { return programs_.end(); }

 private:
  const std::size_t limit_;
  std::list<Pointer> programs_;
};

}  // namespace traingraph
