#pragma once

#include "runtime/backend.h"

// Tensors between host memory, where they are dense row-major, and a backend's memory, where they
// have a layout. On a backend over host memory each is one copy.
namespace traingraph {

void upload(const Backend& backend, const ir::Type& type, const void* from,
            const ir::Layout& layout, std::byte* to);
void download(const Backend& backend, const ir::Type& type, const ir::Layout& layout,
              const std::byte* from, void* to);
// Within the backend's memory.
void convert(const Backend& backend, const ir::Type& type, const ir::Layout& from_layout,
             const std::byte* from, const ir::Layout& to_layout, std::byte* to);

}  // namespace traingraph
