#include "checks.h"

#include <cstdio>
#include <cstdlib>

namespace {
const Check* first = nullptr;
}

const Check* first_check() { return first; }

Check::Check(const char* check_name, void (*body)()) : name(check_name), run(body), next(first) {
  first = this;
}

void require(bool holds, const char* text, const char* file, int line) {
  if (holds) return;
  std::fprintf(stderr, "%s:%d: %s\n", file, line, text);
  std::exit(1);
}
