#include "runtime/backend.h"

namespace traingraph {

const Traits& Backend::traits() const {
  static constexpr Traits kUsual;
  return kUsual;
}

}  // namespace traingraph
