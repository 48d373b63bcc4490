// Opens and reads files; a failed system call raises FileError with path, call and the system's
// text.
#include "runtime/files/open_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include <traingraph/errors.h>

namespace traingraph {
namespace {

// Between two of these a thread may be interrupted.
constexpr std::size_t kMostAtOnce = std::size_t{8} << 20;

}  // namespace

void fail_at(const std::string& path, const std::string& call, const std::string& name) {
  const int code = errno;
  const std::string which = name.empty() || name == path ? "" : " for '" + name + "'";
  throw FileError(path, call + " failed" + which + ": " + std::strerror(code), code);
}

void check_path(const std::string& path) {
  const std::size_t nul = path.find('\0');
  if (nul == std::string::npos) return;
  throw InvalidArgument("[file '" + path.substr(0, nul) +
                        "'] expected a path without NUL but got " + "one after " +
                        std::to_string(nul) + " bytes");
}

OpenFile::~OpenFile() {
  if (number_ < 0) return;
  // A child that was forked meanwhile has it open too, and would go on holding its lock.
  static_cast<void>(::flock(number_, LOCK_UN));
  ::close(number_);
}

OpenFile open_for(const std::string& path, const std::string& name, int flags) {
  const auto open = [&] {
    return ::open(name.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
  };
  return OpenFile(completed(path, "open", open, name));
}

struct stat status_of(const OpenFile& file, const std::string& path) {
  struct stat status{};
  if (::fstat(file.number(), &status) != 0) fail_at(path, "fstat");
  return status;
}

void expect_regular(const struct stat& status, const std::string& path, const std::string& name) {
  if (S_ISREG(status.st_mode)) return;
  const bool folder = S_ISDIR(status.st_mode);
  throw FileError(
      path,
      (name == path ? "" : "'" + name + "' ") +
          std::string(folder ? "is a directory, no regular file" : "is no regular file"),
      folder ? EISDIR : EINVAL);
}

InputFile::InputFile(const std::string& path) : path_(path), file_(-1) {
  check_path(path);
  struct stat status{};
  // Before it is opened, and again for what was opened.
  if (::stat(path.c_str(), &status) != 0) fail_at(path, "open");
  expect_regular(status, path, path);
  file_ = open_for(path, path, O_RDONLY);
  status = status_of(file_, path);
  expect_regular(status, path, path);
  size_ = static_cast<std::uint64_t>(status.st_size);
}

bool InputFile::read(std::uint64_t from, std::span<std::byte> to) const {
  while (!to.empty()) {
    check_interruption();
    const auto count = static_cast<std::size_t>(completed(path_, "read", [&] {
      return ::pread(file_.number(), to.data(), std::min(to.size(), kMostAtOnce),
                     static_cast<off_t>(from));
    }));
    if (count == 0) return false;
    to = to.subspan(count);
    from += count;
  }
  return true;
}

}  // namespace traingraph
