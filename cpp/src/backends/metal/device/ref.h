// Ownership of Objective-C objects: the only file that retains and releases. For .mm files only.
#pragma once

#include <type_traits>
#include <utility>

#import <Foundation/Foundation.h>

namespace traingraph::metal {

// Holds an Objective-C object for as long as it lives: T is a pointer to a class or id<Protocol>.
// This is the only file that retains and releases. Where the compiler counts references itself, a
// member of this type is an ordinary strong one.
template <class T>
class Ref {
 public:
  Ref() = default;
  // Keeps an object that somebody else owns.
  static Ref keep(T object) {
#if !__has_feature(objc_arc)
    [object retain];
#endif
    return own(object);
  }
  // Takes over what alloc, new… or copy gave.
  static Ref own(T object) {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  Ref(const Ref& other) : Ref(keep(other.object_)) {}
  // Of a class for one that it is derived from.
  template <class U>
    requires std::is_convertible_v<U, T>
  Ref(const Ref<U>& other) : Ref(keep(other.get())) {}  // NOLINT: as pointers convert
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nil)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
#if !__has_feature(objc_arc)
    [object_ release];
#endif
  }

  T get() const { return object_; }
  explicit operator bool() const { return object_ != nil; }

 private:
  T object_ = nil;
};

// What Objective-C calls autoreleased is released when this goes.
class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
#if __has_feature(objc_arc)
#error "the pool of this backend needs -fno-objc-arc"
#endif
  ~Pool() { [pool_ drain]; }

 private:
  NSAutoreleasePool* pool_ = [[NSAutoreleasePool alloc] init];
};

}  // namespace traingraph::metal
