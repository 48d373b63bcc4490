#pragma once

#include <memory>
#include <string>

#include <traingraph/errors.h>

namespace traingraph::mps {

// The shared pointer that owns an object, as an object of class T. Raises InvalidArgument where
// there is none: the object lies on a stack, or in another object.
template <class T, class Object>
std::shared_ptr<T> owner_of(Object& object, const std::string& who) {
  const auto owner = object.weak_from_this().lock();
  if (owner != nullptr) return std::static_pointer_cast<T>(owner);
  throw InvalidArgument("[" + who +
                        "] expected an object that a shared pointer owns but got another one");
}

}  // namespace traingraph::mps
