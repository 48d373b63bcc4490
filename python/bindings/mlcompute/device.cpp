// Binds MLCDevice and MLCPlatform (random seed, number of threads), and converts names and device
// types to devices.
#include <algorithm>
#include <limits>

#include "bindings.h"
#include "classes/described_class.h"
#include "classes/signature.h"
#include "convert/convert.h"

namespace traingraph::python {

DataType to_data_type(py::handle value) { return py::cast<DataType>(value); }

namespace {

// Apple's backends warn once while they are not verified on this machine.
Device warned(Device device) {
  if (device.backend() == "metal" || device.backend() == "bnns") {
    py::module_::import("traingraph._verify").attr("warn_unless_verified")(device.backend());
  }
  return device;
}

}  // namespace

Device to_device(py::handle value, const Where& where) {
  if (py::isinstance<py::str>(value)) {
    return warned(Device::named(lower_case(to_text(value, {"MLCDevice", "a name", "str"}))));
  }
  if (py::isinstance<Device>(value)) {
    return py::cast<Device>(value);
  }
  if (py::isinstance(value, enum_class("MLCDeviceType"))) {
    return warned(Device::of_type(py::cast<DeviceType>(value)));
  }
  refuse(where, value);
}

namespace {

// Where Python finds packages, NVIDIA's libraries may be.
std::vector<std::string> package_folders() {
  std::vector<std::string> folders;
  for (const py::handle entry : py::module_::import("sys").attr("path")) {
    if (!py::isinstance<py::str>(entry)) continue;
    const auto path = py::reinterpret_steal<py::object>(PyUnicode_EncodeFSDefault(entry.ptr()));
    if (path) folders.push_back(py::cast<std::string>(path));
    // Text that can name no file holds no packages.
    PyErr_Clear();
  }
  return folders;
}

void set_thread_count(const py::object& given) {
  const std::int64_t count = to_integer(given, {"set_num_threads", "count", "int"});
  if (count > std::numeric_limits<int>::max()) {
    throw InvalidArgument("[set_num_threads] expected a number of threads but got " +
                          std::to_string(count));
  }
  Platform::set_thread_count(static_cast<int>(std::max<std::int64_t>(count, -1)));
}

void bind_platform(py::module_& module) {
  Platform::set_package_folders(package_folders());
  bind_described(module, Platform::class_description(), ownership<void>());
  def_function(module, "set_num_threads", "None", {"count: int, *"},
               "Sets how many threads one step may use; graphs compile again when it changes.",
               [](const Arguments& given) { set_thread_count(given["count"]); });
  def_getter(module, "get_num_threads", "int", "The number of threads that one step may use.",
             &Platform::thread_count);
  def_getter(module, "version", "str", "The version of the library.", &Platform::version);
  def_getter(module, "onednn_version", "str", "The version of oneDNN in use.",
             &Platform::onednn_version);
  def_getter(module, "instruction_set", "str",
             "The level of the CPU backend's hand-written loops: v2, v3, v4 or generic.",
             &Platform::instruction_set);
  def_getter(module, "backends", "list[str]", "The names of the backends that are built in.",
             &Platform::backends);
  const auto of_backend = [&](const char* name, const char* returns, const char* text, auto call) {
    def_function(module, name, returns, {"backend: str, *"}, text, [call](const Arguments& given) {
      return call(to_text(given["backend"], given.where("backend")));
    });
  };
  of_backend("verification_file", "str",
             "The file that lists the kernels that verify found right on this machine.",
             [](const std::string& backend) {
               const std::string path = Platform::verification_file(backend);
               return py::reinterpret_steal<py::str>(PyUnicode_DecodeFSDefault(path.c_str()));
             });
  of_backend("verification_note", "str",
             "The first line there, when it is of this version and this device.",
             &Platform::verification_note);
  of_backend("is_verified", "bool",
             "Whether it is noted that this version of a backend has passed on this device.",
             &Platform::is_verified);
  def_getter(module, "gpus", "list[str]",
             "The GPUs' names by index. Errors: DeviceError that says what is missing.",
             &Platform::gpus);
  def_getter(module, "gpu_architectures", "list[str]",
             "The architectures that the plugin for GPUs has code for, by CMake's names. Errors: "
             "DeviceError that "
             "says what is missing; no GPU is needed.",
             &Platform::gpu_architectures);
}

}  // namespace

void bind_device(py::module_& module) {
  Ownership ownership = python::ownership<void>();
  ownership.after_making = [](const std::any& made, const Arguments&) {
    warned(*static_cast<const Device*>(Device::class_description().object(made)));
  };
  bind_described(module, Device::class_description(), ownership);
  bind_platform(module);
}

}  // namespace traingraph::python
