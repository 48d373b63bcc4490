// What messages say of a text that the caller wrote: the name that it may mean, and its beginning
// where it is long.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <traingraph/export.h>

namespace traingraph {

// The name that a word is near to: but for case and underscores the same, a slip of the keys, its
// beginning or end, or what Keras, PyTorch and NumPy call it.
TRAINGRAPH_API std::optional<std::string> nearest_name(std::string_view word,
                                                       const std::vector<std::string>& names);
// "; did you mean 'adam'?", empty where no name is near.
TRAINGRAPH_API std::string did_you_mean(std::string_view word,
                                        const std::vector<std::string>& names,
                                        std::string_view quote = "'");
// Of a name in a table.
inline constexpr std::size_t kMostShown = 100;
// Of UTF-8.
TRAINGRAPH_API std::size_t character_count(std::string_view text);
// With spaces behind it, up to so many characters.
TRAINGRAPH_API std::string padded(std::string_view text, std::size_t width);
// At most so many characters: the beginning and the end of a longer text, as "aaaa…aaaa".
TRAINGRAPH_API std::string shortened(std::string_view text, std::size_t most);

}  // namespace traingraph
