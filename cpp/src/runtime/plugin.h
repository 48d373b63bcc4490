#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/backend.h"
#include "runtime/peers.h"

namespace traingraph {

// What a plugin's one exported function, traingraph_plugin, answers.
struct Plugin {
  // Of the headers that both sides share; the core refuses another one.
  const char* build_id;
  // One backend per device. Raises DeviceError that names what the machine lacks.
  const std::vector<const Backend*>& (*devices)();
  // What it has code for, by CMake's names, with spaces between them.
  const char* architectures;
};
// What it may ask of the core, which it is not linked to; valid for the life of the process.
struct PluginServices {
  std::shared_ptr<Peers> (*peers_numbered)(int number);
  // The handle of a library that is loaded, or that Python's packages have in this folder; null.
  void* (*packaged_library)(const char* name, const char* folder);
};
using PluginFunction = const Plugin* (*)(const PluginServices*);

// The device of a backend that lives in libtraingraph_<name>.so beside this library. Loads it at
// the first call; raises DeviceError that says which of plugin, libraries, driver and device is
// missing.
const Backend& plugin_backend(const std::string& name, int index);
// All of them.
const std::vector<const Backend*>& plugin_devices(const std::string& name);

// What it has code for; needs no device.
std::vector<std::string> plugin_architectures(const std::string& name);

// Folders that may hold NVIDIA's Python packages, in which a plugin's libraries are looked for.
void set_package_folders(std::vector<std::string> folders);

}  // namespace traingraph
