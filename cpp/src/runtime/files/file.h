// Files: reading, replacing, and writing in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace traingraph {

// Owns what ::open gave.
class OpenFile {
 public:
  explicit OpenFile(int number) : number_(number) {}
  OpenFile(OpenFile&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~OpenFile();
  int number() const { return number_; }

 private:
  int number_;
};

// A regular file, read in pieces.
class InputFile {
 public:
  // Raises FileError, also for anything but a regular file: a FIFO or a device is not even opened,
  // for that may wait or have effects. Raises InvalidArgument for a path with a NUL.
  explicit InputFile(const std::string& path);
  // When it was opened.
  std::uint64_t size() const { return size_; }
  // Fills `to` from this byte on. False where the file has become shorter. Raises FileError.
  bool read(std::uint64_t from, std::span<std::byte> to) const;

 private:
  std::string path_;
  OpenFile file_;
  std::uint64_t size_ = 0;
};

// Writes the pieces one after another as the file's new content, atomically: whoever opens `path`,
// also after a crash in the middle of it, finds the old file or the new one. Until it is renamed
// the new file is `.<name>.partial` in the same directory; what a killed process left under that
// name is overwritten by the next call. Calls for one path wait for each other, across processes.
// Only a regular file is replaced, at the end of all links; a partial file that is no regular file,
// has a second name, or is another user's in a sticky directory is refused.
// Raises FileError, and InvalidArgument for a path with a NUL.
void replace_file(const std::string& path, const std::vector<std::span<const std::byte>>& pieces);
// Raises what replace_file would before it writes, and changes nothing.
void check_replaceable(const std::string& path);

// Writes the text behind what the file has, or instead of it, in place. Raises FileError, and
// InvalidArgument for a path with a NUL.
enum class Write { append, replace };
void write_text(const std::string& path, std::string_view text, Write how);
// Raises what write_text would before it writes, and changes nothing.
void check_writable(const std::string& path);

}  // namespace traingraph
