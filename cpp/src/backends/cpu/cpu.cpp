// The CPU backend: its table of kernels (hand-written loops, oneDNN, then the reference
// implementation), its name and its availability.
#include "backends/cpu/cpu.h"

#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#include <fstream>
#include <thread>

#include "backends/cpu/isa_select.h"
#include "backends/cpu/onednn.h"
#include "backends/reference/reference.h"

namespace traingraph::cpu {
namespace {

std::string processor_name() {
#if defined(__APPLE__)
  char name[256];
  std::size_t length = sizeof name;
  if (sysctlbyname("machdep.cpu.brand_string", name, &length, nullptr, 0) == 0) return name;
#endif
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const std::size_t start = line.find_first_not_of(" \t", line.find(':') + 1);
    if (start != std::string::npos) return line.substr(start);
  }
  return "CPU";
}

class CpuBackend final : public HostBackend {
 public:
  std::string name() const override { return "cpu"; }

  Support available() const override {
    const std::string reason = why_no_level();
    return reason.empty() ? Support{} : Support::no(reason);
  }

  std::vector<std::string> devices() const override {
    const unsigned cores = std::thread::hardware_concurrency();
    return {processor_name() + ", " + std::to_string(cores) + (cores == 1 ? " core" : " cores")};
  }

 protected:
  const std::vector<KernelEntry>& table() const override {
    static const std::vector<KernelEntry> entries = reference::table_behind(own_entries());
    return entries;
  }
};

}  // namespace

std::vector<KernelEntry> float32_entries() {
  std::vector<KernelEntry> entries;
  for (const auto* table :
       {&elementwise_entries(),    &reduce_entries(),     &small_matmul_entries(),
        &blocked_matmul_entries(), &batch_norm_entries(), &row_norm_entries(),
        &pooling_entries(),        &softmax_entries(),    &cross_entropy_entries(),
        &compare_entries(),        &extremum_entries(),   &indexing_entries(),
        &data_movement_entries(),  &select_entries(),     &element_indexing_entries(),
        &check_indices_entries(),  &dropout_entries(),    &embedding_entries(),
        &lstm_entries(),           &attention_entries(),  &winograd_entries(),
        &onednn_entries()}) {
    entries.insert(entries.end(), table->begin(), table->end());
  }
  return entries;
}

std::vector<KernelEntry> own_entries() {
  std::vector<KernelEntry> entries = float32_entries();
  for (const auto* table :
       {&small_half_matmul_entries(), &blocked_half_matmul_entries(), &widened_entries()}) {
    entries.insert(entries.end(), table->begin(), table->end());
  }
  return entries;
}

const Backend& backend() {
  static const CpuBackend instance;
  return instance;
}

}  // namespace traingraph::cpu
