#include "runtime/verbose.h"

#include <cstdlib>
#include <cstring>

namespace traingraph {

bool verbose_dispatch() {
  static const bool on = [] {
    const char* text = std::getenv("TRAINGRAPH_VERBOSE");
    return text != nullptr && std::strstr(text, "dispatch") != nullptr;
  }();
  return on;
}

}  // namespace traingraph
