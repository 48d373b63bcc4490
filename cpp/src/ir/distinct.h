#pragma once

#include <type_traits>
#include <variant>

namespace traingraph::ir {

// A variant with each of these types once.
template <class Variant, class... Types>
struct Distinct {
  using type = Variant;
};
template <class... Known, class Next, class... Types>
struct Distinct<std::variant<Known...>, Next, Types...>
    : Distinct<std::conditional_t<(std::is_same_v<Known, Next> || ...), std::variant<Known...>,
                                  std::variant<Known..., Next>>,
               Types...> {};

}  // namespace traingraph::ir
