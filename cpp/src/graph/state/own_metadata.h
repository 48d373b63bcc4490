// What save() writes of its own beside the user's metadata.
#pragma once

#include <string>

#include <traingraph/errors.h>
#include <traingraph/graph.h>

namespace traingraph {

// The metadata that tells files of ours from others.
inline constexpr const char *kFormat = "format", *kOwnFormat = "traingraph";

inline bool is_own_metadata(const std::string& name) {
  return name == kFormat || name == "version" || name == "optimizer";
}

// Raises InvalidArgument for metadata of such a name. `subject`: "[save]".
inline void check_metadata(const Metadata& metadata, const std::string& subject) {
  for (const auto& [name, text] : metadata) {
    if (!is_own_metadata(name)) continue;
    throw InvalidArgument(subject +
                          " expected metadata of other names than format, version and optimizer, "
                          "which the library writes, but got '" +
                          name + "'");
  }
}

}  // namespace traingraph
