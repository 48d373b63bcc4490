// The note of what a backend has passed on this machine: `python -m traingraph verify` writes it.
#include "runtime/files/verification.h"

#include <algorithm>
#include <cstdlib>
#include <span>
#include <sstream>

#include <traingraph/device.h>
#include <traingraph/errors.h>

#include "runtime/backend.h"
#include "runtime/files/file.h"

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
  return version() + " " + backend + " " + backend_named(backend).devices().at(0);
}

std::vector<std::string> verified(const std::string& backend) {
  std::string text;
  try {
    const InputFile file(Platform::verification_file(backend));
    text.resize(file.size());
    if (!file.read(0, std::as_writable_bytes(std::span(text)))) return {};
  } catch (const FileError&) {
    return {};
  }
  std::istringstream rest(text);
  std::string line;
  if (!std::getline(rest, line) || line != Platform::verification_note(backend)) return {};
  std::vector<std::string> lines;
  while (std::getline(rest, line)) lines.push_back(line);
  return lines;
}

bool Platform::is_verified(const std::string& backend) {
  return std::ranges::count(traingraph::verified(backend), "PASS") != 0;
}

}  // namespace traingraph
