// An Objective-C object held by C++ code, for work that runs when its command buffer is committed.
#pragma once
#include <Foundation/Foundation.h>

#include <utility>

namespace apple {

template <class Object>
class Kept {
 public:
  Kept() = default;
  Kept(Object object) : object_([object retain]) {}
  Kept(const Kept& other) : object_([other.object_ retain]) {}
  Kept(Kept&& other) noexcept : object_(std::exchange(other.object_, nil)) {}
  Kept& operator=(Kept other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Kept() { [object_ release]; }
  operator Object() const { return object_; }
  Object get() const { return object_; }

 private:
  Object object_ = nil;
};

}  // namespace apple
