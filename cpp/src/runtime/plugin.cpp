// Loads a backend's plugin at first use: finds NVIDIA's libraries in Python packages, checks the
// build, and lists the devices.
#include "runtime/plugin.h"

#include <dlfcn.h>
#ifdef __linux__
#include <sys/auxv.h>
#endif
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <map>
#include <mutex>
#include <sstream>

#include <traingraph/errors.h>
#include <traingraph/mutex.h>

namespace traingraph {
namespace {

// Libraries of the plugin and where Python's packages keep them, in the order they need each other.
// It runs without NVRTC, too.
struct Library {
  const char* name;
  const char* folder;
};
constexpr std::array<Library, 3> kLibraries = {{
    {"libcublasLt.so.13", "nvidia/cu13/lib"},
    {"libcudnn.so.9", "nvidia/cudnn/lib"},
    {"libnvrtc.so.13", "nvidia/cu13/lib"},
}};

Mutex mutex;
std::vector<std::string> package_folders;
std::map<std::string, const Plugin*> loaded;

bool exists(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

// The folder of the shared object that this code is in, or of the program that has it inside. Empty
// where that is not known: of a program the loader has the name it was called by.
std::string own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0) return {};
  std::filesystem::path path = info.dli_fname;
#ifdef __linux__
  Dl_info program{};
  const auto* const headers = reinterpret_cast<const void*>(getauxval(AT_PHDR));
  if (dladdr(headers, &program) != 0 && program.dli_fbase == info.dli_fbase) {
    std::error_code error;
    path = std::filesystem::read_symlink("/proc/self/exe", error);
  }
#endif
  return path.is_absolute() ? path.parent_path().string() : std::string();
}

// Packages of another folder than ours are out of the plugin's own search path. What another
// package has loaded already is used as it is.
void* packaged(const char* name, const char* in) {
  void* handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  for (const std::string& folder : package_folders) {
    if (handle != nullptr) break;
    const std::string path = folder + "/" + in + "/" + name;
    if (exists(path)) handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_GLOBAL);
  }
  return handle;
}

void* packaged_library(const char* name, const char* folder) {
  const std::lock_guard lock(mutex);
  return packaged(name, folder);
}

constexpr PluginServices kServices{peers_numbered, packaged_library};

const Plugin* load(const std::string& name) {
  const std::string file = "libtraingraph_" + name + ".so";
  const std::string folder = own_folder();
  std::string path = folder + "/" + file;
  if (!exists(path)) path = folder + "/lib/" + file;
  // Nothing is looked for where the folder is not known, least of all in the current one.
  if (folder.empty() || !exists(path)) {
    throw DeviceError("[device] expected a GPU but this build has no " + file +
                      "; install it with TRAINGRAPH_CUDA=1 pip install '.[cuda13]'");
  }
  for (const Library& library : kLibraries) packaged(library.name, library.folder);
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw DeviceError(
        "[device] expected NVIDIA's libraries (pip install 'traingraph[cuda13]') "
        "but loading failed: " +
        std::string(dlerror()));
  }
  const auto function = reinterpret_cast<PluginFunction>(dlsym(handle, "traingraph_plugin"));
  const Plugin* plugin = function != nullptr ? function(&kServices) : nullptr;
  if (plugin == nullptr || std::string(plugin->build_id) != TRAINGRAPH_BUILD_ID) {
    throw DeviceError("[device] expected " + path + " of build " TRAINGRAPH_BUILD_ID " but got " +
                      (plugin == nullptr ? "no plugin" : plugin->build_id) +
                      "; install both from one build");
  }
  return plugin;
}

// Under `mutex`. Kept for good: objects of its classes live until the process ends. A failure is
// tried again.
const Plugin& plugin_named(const std::string& name) {
  const Plugin*& plugin = loaded[name];
  if (plugin == nullptr) plugin = load(name);
  return *plugin;
}

}  // namespace

void set_package_folders(std::vector<std::string> folders) {
  const std::lock_guard lock(mutex);
  // What is relative means another folder with every change of the current one.
  std::erase_if(folders, [](const std::string& folder) { return !folder.starts_with('/'); });
  package_folders = std::move(folders);
}

const std::vector<const Backend*>& plugin_devices(const std::string& name) {
  const std::lock_guard lock(mutex);
  return plugin_named(name).devices();
}

std::vector<std::string> plugin_architectures(const std::string& name) {
  const std::lock_guard lock(mutex);
  std::istringstream text(plugin_named(name).architectures);
  return {std::istream_iterator<std::string>(text), {}};
}

const Backend& plugin_backend(const std::string& name, int index) {
  const std::vector<const Backend*>& devices = plugin_devices(name);
  if (index < 0 || static_cast<std::size_t>(index) >= devices.size()) {
    throw DeviceError("[device] expected a GPU from 0 to " + std::to_string(devices.size() - 1) +
                      " but got " + std::to_string(index));
  }
  return *devices[static_cast<std::size_t>(index)];
}

}  // namespace traingraph
