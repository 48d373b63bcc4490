#include <pybind11/stl.h>

#include <map>

#include "runtime/diagnostics.h"
#include "runtime/plugin.h"
#include "testing.h"

namespace traingraph::testing {
namespace {

// A plugin is one in the process, so these count what either copy of the core asked for.
std::map<std::string, std::int64_t> device_counters(const std::string& name, int index) {
  const Diagnostics* const device = backend_named(name, index).diagnostics();
  const DeviceCounters now = device != nullptr ? device->counters() : DeviceCounters{};
  return {{"launches", now.launches},
          {"captured", now.captured},
          {"warpgroups", now.warpgroups},
          {"allocations", now.allocations},
          {"allocated_bytes", now.allocated_bytes},
          {"copies_in", now.copies_in},
          {"copies_out", now.copies_out},
          {"copies_within", now.copies_within}};
}

}  // namespace

void bind_device(py::module_& module) {
  module.def("device_counters", device_counters, py::arg("name"), py::arg("index") = 0,
             "What a device was asked to do since the process started.");
  module.def(
      "repeat_last_run",
      [](const std::string& name, int times, int index) {
        const Diagnostics* const device = backend_named(name, index).diagnostics();
        return device != nullptr ? device->repeat_last_run(times) : 0;
      },
      py::arg("name"), py::arg("times"), py::arg("index") = 0,
      "Seconds on the device of each of so many launches of the captured run launched last.");
  module.def("set_package_folders", set_package_folders, py::arg("folders"),
             "Where this copy of the core looks for NVIDIA's packages.");
}

}  // namespace traingraph::testing
