// NVRTC, loaded by name, and the kernels that it has compiled in this process.
#include "backends/cuda/kernel/run_time_compiler.h"

#include <dlfcn.h>

#include <map>
#include <vector>

#include <traingraph/errors.h>
#include <traingraph/mutex.h>
#include "backends/cuda/kernel/check.h"

namespace traingraph::cuda {
namespace {

// The functions of NVRTC. A result of 0 is success.
struct Nvrtc {
  using Program = void*;
  int (*create)(Program*, const char* source, const char* name, int headers,
                const char* const* texts, const char* const* names);
  int (*compile)(Program, int options, const char* const* texts);
  int (*log_size)(Program, std::size_t*);
  int (*log)(Program, char*);
  int (*cubin_size)(Program, std::size_t*);
  int (*cubin)(Program, char*);
  int (*destroy)(Program*);
  bool is_there = false;
};

const Nvrtc& nvrtc() {
  static const Nvrtc library = [] {
    Nvrtc found{};
    void* const handle = dlopen("libnvrtc.so.13", RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) return found;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(handle, name));
      return function != nullptr;
    };
    found.is_there =
        find(found.create, "nvrtcCreateProgram") && find(found.compile, "nvrtcCompileProgram") &&
        find(found.log_size, "nvrtcGetProgramLogSize") && find(found.log, "nvrtcGetProgramLog") &&
        find(found.cubin_size, "nvrtcGetCUBINSize") && find(found.cubin, "nvrtcGetCUBIN") &&
        find(found.destroy, "nvrtcDestroyProgram");
    return found;
  }();
  return library;
}

// Machine code for a compute capability; empty if NVRTC does not know it.
std::vector<char> machine_code(const std::string& source, int capability) {
  constexpr int kInvalidOption = 5;
  const Nvrtc& library = nvrtc();
  Nvrtc::Program program = nullptr;
  if (library.create(&program, source.c_str(), "list.cu", 0, nullptr, nullptr) != 0) {
    throw DeviceError("[cuda] nvrtcCreateProgram failed");
  }
  const std::string architecture = "--gpu-architecture=sm_" + std::to_string(capability);
  const char* const options[] = {architecture.c_str(), "--std=c++17"};
  const int result = library.compile(program, 2, options);
  std::vector<char> code;
  std::string log;
  if (result == 0) {
    std::size_t size = 0;
    library.cubin_size(program, &size);
    code.resize(size);
    library.cubin(program, code.data());
  } else {
    std::size_t size = 0;
    library.log_size(program, &size);
    log.resize(size);
    library.log(program, log.data());
  }
  library.destroy(&program);
  if (result != 0 && result != kInvalidOption) {
    throw DeviceError("[cuda] nvrtcCompileProgram failed (" + std::to_string(result) + "): " + log);
  }
  return code;
}

}  // namespace

cudaKernel_t compiled_kernel(const std::string& source, const char* name, int device) {
  // Kept for good: kernels may be in use until the process ends.
  static Mutex mutex;
  static auto& kernels = *new std::map<std::pair<int, std::string>, cudaKernel_t>();
  if (!nvrtc().is_there) return nullptr;
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
        "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
        "cudaDeviceGetAttribute");
  const int capability = major * 10 + minor;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = kernels.try_emplace({capability, source}, nullptr);
  if (!is_new) return found->second;
  try {
    const std::vector<char> code = machine_code(source, capability);
    if (code.empty()) return nullptr;
    cudaLibrary_t library = nullptr;
    check(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
          "cudaLibraryLoadData");
    check(cudaLibraryGetKernel(&found->second, library, name), "cudaLibraryGetKernel");
  } catch (...) {
    kernels.erase(found);
    throw;
  }
  return found->second;
}

}  // namespace traingraph::cuda
