// What comparisons say of two numbers, on the host and on a device.
#pragma once

#include "ir/attributes.h"
#include "ir/host_device.h"

namespace traingraph::ir {

// A logical one takes what is not 0 for true.
template <class T>
TRAINGRAPH_HOST_DEVICE inline bool holds(Comparison comparison, T x, T y) {
  const bool a = x != T(0), b = y != T(0);
  switch (comparison) {
    case Comparison::equal:
      return x == y;
    case Comparison::not_equal:
      return x != y;
    case Comparison::less:
      return x < y;
    case Comparison::greater:
      return x > y;
    case Comparison::less_or_equal:
      return x <= y;
    case Comparison::greater_or_equal:
      return x >= y;
    case Comparison::logical_and:
      return a && b;
    case Comparison::logical_or:
      return a || b;
    case Comparison::logical_not:
      return !a;
    case Comparison::logical_nand:
      return !(a && b);
    case Comparison::logical_nor:
      return !(a || b);
    case Comparison::logical_xor:
      return a != b;
  }
  return false;
}

}  // namespace traingraph::ir
