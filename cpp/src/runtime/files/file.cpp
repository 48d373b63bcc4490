// Writes files: atomically, by a locked partial file beside it, synchronized and then renamed over
// it; or in place.
#include "runtime/files/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include <traingraph/errors.h>

#include "runtime/files/open_file.h"

namespace traingraph {
namespace {

constexpr std::size_t kMostWrittenAtOnce = std::size_t{8} << 20;

// Where a path leads, though nothing be there yet: links stay.
std::filesystem::path resolved(const std::string& path) {
  constexpr int kMostLinks = 40;
  std::filesystem::path target = path;
  for (int links = 0; links <= kMostLinks; ++links) {
    struct stat status{};
    if (::lstat(target.c_str(), &status) != 0) {
      if (errno == ENOENT) return target;
      fail_at(path, "open");
    }
    if (!S_ISLNK(status.st_mode)) return target;
    std::error_code error;
    target = target.parent_path() / std::filesystem::read_symlink(target, error);
    if (!error) continue;
    errno = error.value();
    fail_at(path, "open");
  }
  errno = ELOOP;
  fail_at(path, "open");
}

// What another process may have put in its place: a name for something else's content.
void check_partial(const struct stat& status, const std::string& path, const std::string& partial,
                   const std::string& folder) {
  expect_regular(status, path, partial);
  if (status.st_nlink > 1) {
    throw FileError(
        path, "'" + partial + "' has another name, whose content would be lost; remove it", EMLINK);
  }
  struct stat around{};
  const bool shared = ::stat(folder.c_str(), &around) == 0 && (around.st_mode & S_ISVTX) != 0;
  if (shared && status.st_uid != ::geteuid()) {
    throw FileError(path, "'" + partial + "' belongs to another user", EPERM);
  }
}

// Opens the partial file and locks it. Whoever held the lock before may have renamed it, so that
// the name means another file by now.
OpenFile open_partial(const std::string& path, const std::string& partial,
                      const std::string& folder) {
  for (;;) {
    struct stat named{};
    if (::lstat(partial.c_str(), &named) == 0 && !S_ISLNK(named.st_mode)) {
      expect_regular(named, path, partial);
    }
    OpenFile file = open_for(path, partial, O_WRONLY | O_CREAT | O_NOFOLLOW);
    bool locked = false;
    wait_until([&] {
      locked = ::flock(file.number(), LOCK_EX | LOCK_NB) == 0;
      // File systems without locks are written without.
      return locked || (errno != EINTR && errno != EWOULDBLOCK);
    });
    const struct stat opened = status_of(file, path);
    const bool exists = ::lstat(partial.c_str(), &named) == 0;
    const bool same = exists && opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
    if (!same && locked) continue;
    check_partial(opened, path, partial, folder);
    return file;
  }
}

void write_all(const OpenFile& file, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    check_interruption();
    const auto written = completed(path, "write", [&] {
      return ::write(file.number(), bytes.data(), std::min(bytes.size(), kMostWrittenAtOnce));
    });
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void synchronize(const OpenFile& file, const std::string& path) {
#ifdef F_FULLFSYNC
  // On a Mac fsync leaves the bytes in the drive's own memory. Not every file system can do more.
  if (::fcntl(file.number(), F_FULLFSYNC) == 0) return;
#endif
  completed(path, "fsync", [&] {
    const int result = ::fsync(file.number());
    // Some file systems have nothing to synchronize.
    return result != 0 && errno == EINVAL ? 0 : result;
  });
}

// The names of a file that is replaced, and what is there before.
struct Replaced {
  std::filesystem::path target;
  std::string folder, partial;
  std::optional<mode_t> mode;  // none: there is no file yet
};

Replaced replaced(const std::string& path) {
  check_path(path);
  Replaced file;
  file.target = resolved(path);
  struct stat before{};
  if (::stat(file.target.c_str(), &before) == 0) {
    expect_regular(before, path, path);
    file.mode = before.st_mode;
  }
  if (!file.target.has_filename()) {
    errno = file.target.empty() ? ENOENT : EISDIR;
    fail_at(path, "open");
  }
  const std::filesystem::path parent = file.target.parent_path();
  file.folder = parent.empty() ? "." : parent.string();
  file.partial = parent / ("." + file.target.filename().string() + ".partial");
  return file;
}

}  // namespace

void replace_file(const std::string& path, const std::vector<std::span<const std::byte>>& pieces) {
  const Replaced names = replaced(path);
  const OpenFile file = open_partial(path, names.partial, names.folder);
  try {
    if (::ftruncate(file.number(), 0) != 0) fail_at(path, "ftruncate");
    if (names.mode) {
      // Not allowed for another user's file: the new one then has this user's usual mode.
      [[maybe_unused]] const int ignored = ::fchmod(file.number(), *names.mode & 07777);
    }
    for (const std::span<const std::byte> piece : pieces) write_all(file, piece, path);
    synchronize(file, path);
    if (std::rename(names.partial.c_str(), names.target.c_str()) != 0) fail_at(path, "rename");
  } catch (...) {
    ::unlink(names.partial.c_str());
    throw;
  }
  // The new name reaches the disk with its directory.
  synchronize(open_for(path, names.folder, O_RDONLY | O_DIRECTORY), path);
}

void check_replaceable(const std::string& path) {
  const Replaced names = replaced(path);
  const OpenFile file = open_partial(path, names.partial, names.folder);
  ::unlink(names.partial.c_str());
}

void write_text(const std::string& path, std::string_view text, Write how) {
  check_path(path);
  const int kept = how == Write::append ? O_APPEND : O_TRUNC;
  write_all(open_for(path, path, O_WRONLY | O_CREAT | kept), std::as_bytes(std::span(text)), path);
}

void check_writable(const std::string& path) {
  check_path(path);
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) fail_at(path, "open");
    const std::string target = resolved(path);
    const OpenFile made = open_for(path, target, O_WRONLY | O_CREAT | O_EXCL);
    ::unlink(target.c_str());
    return;
  }
  if (S_ISDIR(status.st_mode)) expect_regular(status, path, path);
  if (S_ISREG(status.st_mode)) {
    open_for(path, path, O_WRONLY);
  } else if (::access(path.c_str(), W_OK) != 0) {
    fail_at(path, "open");  // one that is opened may wait, or have effects
  }
}

}  // namespace traingraph
