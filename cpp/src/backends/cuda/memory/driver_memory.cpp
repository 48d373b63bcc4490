#include "backends/cuda/memory/driver_memory.h"

#include <dlfcn.h>

namespace traingraph::cuda {
namespace {

// The needed part of the interface. The library's header is not part of the toolkit's core.
struct Memory {
  unsigned long long total;
  unsigned long long available;
  unsigned long long used;
};
using Init = int (*)();
using FindByUuid = int (*)(const char*, void**);
using MemoryInfo = int (*)(void*, Memory*);

template <class Function>
Function function(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

std::size_t used_device_memory(const std::string& uuid) {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return 0;
  const auto init = function<Init>(library, "nvmlInit_v2");
  const auto find = function<FindByUuid>(library, "nvmlDeviceGetHandleByUUID");
  const auto info = function<MemoryInfo>(library, "nvmlDeviceGetMemoryInfo");
  const auto shut_down = function<Init>(library, "nvmlShutdown");
  Memory memory{};
  if (init != nullptr && find != nullptr && info != nullptr && shut_down != nullptr &&
      init() == 0) {
    void* device = nullptr;
    if (find(uuid.c_str(), &device) != 0 || info(device, &memory) != 0) memory = {};
    shut_down();
  }
  dlclose(library);
  return memory.used;
}

}  // namespace traingraph::cuda
