#include "runtime/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include <traingraph/errors.h>

namespace traingraph {
namespace {

[[noreturn]] void fail(const char* call, const std::string& path) {
  throw FileError("[file '" + path + "'] " + call + " failed: " + std::strerror(errno));
}

// Repeats a call that a signal interrupted.
template <class Call>
auto uninterrupted(Call call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

Descriptor open_file(const std::string& path, int flags) {
  const int fd = uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); });
  if (fd < 0) fail("open", path);
  return Descriptor(fd);
}

// Opens the partial file and locks it. Whoever held the lock before may have renamed it, so that
// the name means another file by now.
Descriptor open_partial(const std::string& path) {
  for (;;) {
    Descriptor file = open_file(path, O_WRONLY | O_CREAT | O_NOFOLLOW);
    // File systems without locks are written without.
    const bool locked = uninterrupted([&] { return ::flock(file.get(), LOCK_EX); }) == 0;
    struct stat opened{};
    struct stat named{};
    if (::fstat(file.get(), &opened) != 0) fail("fstat", path);
    const bool exists = ::stat(path.c_str(), &named) == 0;
    const bool same = exists && opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
    if (same || !locked) return file;
  }
}

void write_all(const Descriptor& file, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written =
        uninterrupted([&] { return ::write(file.get(), bytes.data(), bytes.size()); });
    if (written < 0) fail("write", path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void synchronize(const Descriptor& file, const std::string& path) {
#ifdef F_FULLFSYNC
  // On a Mac fsync leaves the bytes in the drive's own memory. Not every file system can do more.
  if (::fcntl(file.get(), F_FULLFSYNC) == 0) return;
#endif
  // Some file systems have nothing to synchronize and say EINVAL.
  if (uninterrupted([&] { return ::fsync(file.get()); }) != 0 && errno != EINVAL) {
    fail("fsync", path);
  }
}

// Where a link leads: the link itself stays.
std::filesystem::path resolved(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(std::filesystem::symlink_status(path, error))) return path;
  std::filesystem::path target = std::filesystem::weakly_canonical(path, error);
  return error ? std::filesystem::path(path) : target;
}

}  // namespace

FileBytes read_file(const std::string& path) {
  const Descriptor file = open_file(path, O_RDONLY);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) fail("fstat", path);
  if (!S_ISREG(status.st_mode)) throw FileError("[file '" + path + "'] is no regular file");
  const auto size = static_cast<std::size_t>(status.st_size);
  const std::shared_ptr<std::byte[]> bytes(new std::byte[size]);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count =
        uninterrupted([&] { return ::read(file.get(), bytes.get() + done, size - done); });
    if (count < 0) fail("read", path);
    if (count == 0) break;  // it has become shorter
    done += static_cast<std::size_t>(count);
  }
  return {bytes, done};
}

void replace_file(const std::string& path, const std::vector<std::span<const std::byte>>& pieces) {
  const std::filesystem::path target = resolved(path);
  const std::filesystem::path folder = target.has_parent_path() ? target.parent_path() : ".";
  const std::string partial = folder / ("." + target.filename().string() + ".partial");
  if (!target.has_filename() || std::filesystem::is_directory(target)) {
    throw FileError("[file '" + path + "'] is a directory");
  }
  const Descriptor file = open_partial(partial);
  try {
    if (::ftruncate(file.get(), 0) != 0) fail("ftruncate", partial);
    struct stat before{};
    if (::stat(target.c_str(), &before) == 0) {
      // Not allowed for another user's file: the new one then has this user's usual mode.
      [[maybe_unused]] const int ignored = ::fchmod(file.get(), before.st_mode & 07777);
    }
    for (const std::span<const std::byte> piece : pieces) write_all(file, piece, partial);
    synchronize(file, partial);
    if (std::rename(partial.c_str(), target.c_str()) != 0) fail("rename", partial);
  } catch (...) {
    ::unlink(partial.c_str());
    throw;
  }
  // The new name reaches the disk with its directory.
  synchronize(open_file(folder.string(), O_RDONLY | O_DIRECTORY), folder.string());
}

}  // namespace traingraph
