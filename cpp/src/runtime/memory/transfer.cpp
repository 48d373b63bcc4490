#include "runtime/memory/transfer.h"

#include "runtime/device_memory.h"
#include "runtime/memory/layout_copy.h"

namespace traingraph {

void upload(const Backend& backend, const ir::Type& type, const void* from,
            const ir::Layout& layout, std::byte* to) {
  const auto* plain = static_cast<const std::byte*>(from);
  if (uses_host_memory(backend)) return copy_between_layouts(type, {}, plain, layout, to);
  const std::size_t bytes = ir::storage_bytes(type, layout);
  if (layout.plain()) return write_memory(backend, to, plain, bytes);
  std::vector<std::byte> arranged(bytes);
  copy_between_layouts(type, {}, plain, layout, arranged.data());
  write_memory(backend, to, arranged.data(), bytes);
}

void download(const Backend& backend, const ir::Type& type, const ir::Layout& layout,
              const std::byte* from, void* to) {
  auto* plain = static_cast<std::byte*>(to);
  if (uses_host_memory(backend)) return copy_between_layouts(type, layout, from, {}, plain);
  const std::size_t bytes = ir::storage_bytes(type, layout);
  if (layout.plain()) return read_memory(backend, plain, from, bytes);
  std::vector<std::byte> arranged(bytes);
  read_memory(backend, arranged.data(), from, bytes);
  copy_between_layouts(type, layout, arranged.data(), {}, plain);
}

void convert(const Backend& backend, const ir::Type& type, const ir::Layout& from_layout,
             const std::byte* from, const ir::Layout& to_layout, std::byte* to) {
  if (uses_host_memory(backend))
    return copy_between_layouts(type, from_layout, from, to_layout, to);
  if (from_layout == to_layout)
    return copy_memory(backend, to, from, ir::storage_bytes(type, to_layout));
  std::vector<std::byte> plain(ir::storage_bytes(type, {}));
  download(backend, type, from_layout, from, plain.data());
  upload(backend, type, plain.data(), to_layout, to);
}

}  // namespace traingraph
