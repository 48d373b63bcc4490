#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace traingraph {

// A whole file in memory.
struct FileBytes {
  std::shared_ptr<const std::byte[]> bytes;
  std::size_t size = 0;
};

// Raises FileError.
FileBytes read_file(const std::string& path);

// Writes the pieces one after another as the file's new content, atomically: whoever opens `path`,
// also after a crash in the middle of it, finds the old file or the new one. Until it is renamed
// the new file is `.<name>.partial` in the same directory; what a killed process left under that
// name is overwritten by the next call. Calls for one path wait for each other, across processes.
// Raises FileError.
void replace_file(const std::string& path, const std::vector<std::span<const std::byte>>& pieces);

}  // namespace traingraph
