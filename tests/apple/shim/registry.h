#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <type_traits>

// Kernels of shaders that were compiled as C++, by name: where the double of a Metal library finds
// its functions.
namespace shim {

// Runs one thread. Buffer i is what was set at index i, with its offset added.
using Run = void (*)(void* const* buffers, const unsigned (&position)[3]);

struct Kernel {
  const char* name;
  Run run;
};

// Makes kernels known when the program starts.
struct Kernels {
  Kernels(std::initializer_list<Kernel> kernels);
};

// Null where there is none of this name.
Run find(const std::string& name);

// A kernel's arguments: buffers in the order of their indices, then the thread's position.
template <class T>
T argument(void* const*& next, const unsigned (&position)[3]) {
  if constexpr (std::is_pointer_v<T>) {
    return static_cast<T>(*next++);
  } else if constexpr (std::is_reference_v<T>) {
    return *static_cast<std::remove_reference_t<T>*>(*next++);
  } else if constexpr (std::is_integral_v<T>) {
    return position[0];
  } else {
    return {position[0], position[1], position[2]};
  }
}

template <auto function>
struct Entry;

template <class... Arguments, void (*function)(Arguments...)>
struct Entry<function> {
  static void run(void* const* buffers, const unsigned (&position)[3]) {
    // Braces, because what stands in them is worked out from left to right.
    [[maybe_unused]] const Call call{argument<Arguments>(buffers, position)...};
  }

 private:
  struct Call {
    Call(Arguments... values) { function(static_cast<Arguments>(values)...); }
  };
};

}  // namespace shim
