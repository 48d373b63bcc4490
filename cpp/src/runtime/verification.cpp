#include <traingraph/device.h>

#include <cstdlib>
#include <span>

#include <traingraph/errors.h>

#include "runtime/backend.h"
#include "runtime/file.h"

namespace traingraph {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string cache_folder() {
  std::string chosen = environment("XDG_CACHE_HOME");
  if (!chosen.empty()) return chosen;
#if defined(__APPLE__)
  return environment("HOME") + "/Library/Caches";
#else
  return environment("HOME") + "/.cache";
#endif
}

}  // namespace

std::string Platform::verification_file(const std::string& backend) {
  return cache_folder() + "/traingraph/verified-" + backend + ".txt";
}

std::string Platform::verification_note(const std::string& backend) {
  return version() + " " + backend + " " + backend_named(backend).devices().at(0) + " PASS\n";
}

bool Platform::is_verified(const std::string& backend) {
  const std::string note = verification_note(backend);
  std::string text(note.size(), ' ');
  try {
    const InputFile file(verification_file(backend));
    return file.size() == note.size() && file.read(0, std::as_writable_bytes(std::span(text))) &&
           text == note;
  } catch (const FileError&) {
    return false;
  }
}

}  // namespace traingraph
