// Lists the backends that are built in, best first, and finds one by its name.
#include <traingraph/device.h>
#include <traingraph/errors.h>
#include <traingraph/support.h>

#include <set>

#include "backends/bnns/bnns.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/isa_select.h"
#include "backends/cpu/onednn.h"
#include "backends/metal/metal.h"
#include "backends/null/null.h"
#include "backends/reference/reference.h"
#include "runtime/backend.h"
#include "runtime/plugin.h"

namespace traingraph {

const std::vector<const Backend*>& backends() {
  static const std::vector<const Backend*> list = {&cpu::backend(), &reference::backend(),
#ifdef TRAINGRAPH_METAL
                                                   &metal::backend(),
#endif
#ifdef TRAINGRAPH_BNNS
                                                   &bnns::backend(),
#endif
                                                   &null::backend()};
  return list;
}

const Backend& backend_named(const std::string& name, int index) {
  if (name == "cuda") return plugin_backend("cuda", index);
  std::string known;
  for (const Backend* backend : backends()) {
    if (backend->name() == name) {
      const Support available = backend->available();
      if (!available.yes) throw DeviceError("[device] " + name + ": " + available.reason);
      return *backend;
    }
    known += (known.empty() ? "" : ", ") + backend->name();
  }
  throw InvalidArgument("[device] expected a backend of " + known + " but got '" + name + "'");
}

std::vector<std::string> looped_ops(const std::string& backend) {
  std::vector<KernelEntry> own;
  if (backend == "cpu") own = cpu::own_entries();
#ifdef TRAINGRAPH_BNNS
  if (backend == "bnns") own = bnns::own_entries();
#endif
  if (own.empty()) return {};
  std::set<std::string> looped;
  for (const KernelEntry& loop : reference::table()) looped.insert(ir::name(loop.op));
  for (const KernelEntry& kernel : own) looped.erase(ir::name(kernel.op));
  looped.erase(ir::name(ir::Op::reshape));     // a view
  looped.erase(ir::name(ir::Op::all_reduce));  // the one kernel of all host backends
  return {looped.begin(), looped.end()};
}

std::string Platform::instruction_set() { return cpu::loops().level; }
std::string Platform::onednn_version() { return cpu::onednn_version(); }

}  // namespace traingraph
