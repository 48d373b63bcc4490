#pragma once

#include <string>

#include "graph/state/fit_place.h"

namespace traingraph {

// What names begin with that only a fit needs which goes on.
inline constexpr const char* kOfFit = "fit.";

// A fit's place as entries of a checkpoint. All but `passes`, which the graph's own tell.
NamedData entries_of(const FitPlace& place);
// The same back. Raises InvalidArgument for entries that no fit has written; `source`: for
// messages.
FitPlace place_of(const NamedData& entries, const std::string& source);

}  // namespace traingraph
