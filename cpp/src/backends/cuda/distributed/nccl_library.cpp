#include "backends/cuda/distributed/nccl_library.h"

#include <dlfcn.h>

#include <string>

#include <traingraph/errors.h>

#include "backends/cuda/kernel/core_services.h"

namespace traingraph::cuda {
namespace {

constexpr const char* kName = "libnccl.so.2";
constexpr const char* kFolder = "nvidia/nccl/lib";

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function != nullptr) return;
  throw DistributedError("[distributed] expected the symbol " + std::string(name) + " of " + kName +
                         " but it has none; pip install 'traingraph[nccl]'");
}

NcclLibrary loaded() {
  void* library = core_services->packaged_library(kName, kFolder);
  if (library == nullptr) library = dlopen(kName, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    throw DistributedError(
        "[distributed] expected NCCL, by which ranks on GPUs add gradients (pip install "
        "'traingraph[nccl]'), but loading failed: " +
        std::string(dlerror()));
  }
  NcclLibrary made{};
  find(library, "ncclGetUniqueId", made.GetUniqueId);
  find(library, "ncclCommInitRank", made.CommInitRank);
  find(library, "ncclCommAbort", made.CommAbort);
  find(library, "ncclAllReduce", made.AllReduce);
  find(library, "ncclGroupStart", made.GroupStart);
  find(library, "ncclGroupEnd", made.GroupEnd);
  find(library, "ncclGetErrorString", made.GetErrorString);
  find(library, "ncclGetLastError", made.GetLastError);
  return made;
}

}  // namespace

const NcclLibrary& nccl() {
  static const NcclLibrary library = loaded();
  return library;
}

void check_nccl(int code, const char* call) {
  if (code == 0) return;
  throw DistributedError("[cuda] expected " + std::string(call) + " to succeed but got code " +
                         std::to_string(code) + " (" + nccl().GetErrorString(code) + "; " +
                         nccl().GetLastError(nullptr) + ")");
}

}  // namespace traingraph::cuda
