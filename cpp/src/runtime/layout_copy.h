#pragma once

#include <cstddef>

#include "ir/type.h"

namespace traingraph {

// The same tensor from one layout to another, element by element; padding becomes zero. For what
// happens outside steps: uploads, downloads, a layout chosen anew.
void copy_between_layouts(const ir::Type& type, const ir::Layout& from, const std::byte* source,
                          const ir::Layout& to, std::byte* target);

}  // namespace traingraph
