#pragma once

#include <mutex>
#include <string>
#include <utility>

namespace traingraph {

// A name that one thread may set while others read it.
class Label {
 public:
  explicit Label(std::string text = {}) : text_(std::move(text)) {}
  std::string get() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  void set(std::string text) {
    const std::lock_guard lock(mutex_);
    text_.swap(text);
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

}  // namespace traingraph
