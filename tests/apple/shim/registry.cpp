#include "registry.h"

#include <map>

namespace shim {
namespace {

std::map<std::string, Run>& known() {
  static std::map<std::string, Run> kernels;
  return kernels;
}

}  // namespace

Kernels::Kernels(std::initializer_list<Kernel> kernels) {
  for (const Kernel& kernel : kernels) known()[kernel.name] = kernel.run;
}

Run find(const std::string& name) {
  const auto found = known().find(name);
  return found == known().end() ? nullptr : found->second;
}

}  // namespace shim
