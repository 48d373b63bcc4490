// Runs one check by name: every broken rule ends the program, so each check has a process.
#include <cstdio>
#include <cstring>

#include "checks.h"

int main(int count, char** arguments) {
  if (count == 1) {
    for (const Check* check = first_check(); check != nullptr; check = check->next)
      std::printf("%s\n", check->name);
    return 0;
  }
  for (const Check* check = first_check(); check != nullptr; check = check->next)
    if (std::strcmp(check->name, arguments[1]) == 0) {
      check->run();
      return 0;
    }
  std::fprintf(stderr, "there is no check %s\n", arguments[1]);
  return 2;
}
