#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <string>

#include "runtime/files/file.h"
#include "runtime/threads/interruption.h"

// What reading and writing files have in common.
namespace traingraph {

// Raises FileError for what errno says. The error is of `path`, whatever other `name` a call of the
// system was for.
[[noreturn]] void fail_at(const std::string& path, const std::string& call,
                          const std::string& name = {});

// Repeats a call that a signal or another's lease held up; one that returns below 0 for another
// reason fails.
template <class Call>
auto completed(const std::string& path, const char* called, Call call,
               const std::string& name = {}) {
  decltype(call()) result{};
  wait_until([&] {
    result = call();
    return result >= 0 || (errno != EINTR && errno != EWOULDBLOCK);
  });
  if (result < 0) fail_at(path, called, name);
  return result;
}

// Raises InvalidArgument for a NUL, at which the system would cut the path.
void check_path(const std::string& path);

// Opens `name` for the sake of `path`. Never waits for a FIFO's other end.
OpenFile open_for(const std::string& path, const std::string& name, int flags);

struct stat status_of(const OpenFile& file, const std::string& path);

// Raises FileError.
void expect_regular(const struct stat& status, const std::string& path, const std::string& name);

}  // namespace traingraph
