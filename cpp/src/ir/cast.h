#pragma once

#include "ir/attributes.h"

namespace traingraph::ir {

// Whether an elementwise op does nothing but give its input, perhaps in another type.
inline bool is_cast(const ElementwiseAttributes& a) {
  return a.list.inputs == 1 && a.list.code.size() <= 1 && a.list.results.size() == 1 &&
         (a.list.code.empty() || a.list.code[0].function == Scalar::identity);
}

}  // namespace traingraph::ir
