// CHECK(name) { … } is a check that apple_checks runs by its name; REQUIRE(…) is what it demands.
#pragma once

struct Check {
  Check(const char* check_name, void (*body)());
  const char* name;
  void (*run)();
  const Check* next;
};
const Check* first_check();

void require(bool holds, const char* text, const char* file, int line);

#define REQUIRE(...) require((__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)
#define CHECK(name)                                \
  static void name();                              \
  static const Check check_of_##name{#name, name}; \
  static void name()
