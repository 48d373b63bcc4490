// Binds MLCDevice and MLCPlatform (random seed, number of threads), and converts names and device
// types to devices.
#include <pybind11/typing.h>

#include <algorithm>
#include <cctype>
#include <limits>

#include "bindings.h"
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

Device to_device(py::handle value) {
  if (py::isinstance<py::str>(value)) {
    std::string text = to_text(value, {"MLCDevice", "a name", "str"});
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
    return warned(Device::named(text));
  }
  if (py::isinstance<Device>(value)) {
    return py::cast<Device>(value);
  }
  if (py::isinstance(value, enum_class("MLCDeviceType"))) {
    return warned(Device::of_type(py::cast<DeviceType>(value)));
  }
  refuse({"MLCDevice", "a device", "MLCDevice | str"}, value);
}

namespace {

Device only_gpu(const std::vector<py::object>& devices, const Where& where) {
  if (devices.empty()) {
    throw InvalidArgument("[MLCDevice] expected gpu_devices of at least one device but got none");
  }
  for (const py::object& item : devices) {
    if (!py::isinstance<Device>(item)) refuse(where, item);
    const auto& device = py::cast<const Device&>(item);
    if (device.actual_type() == DeviceType::kGpu) continue;
    throw InvalidArgument("[MLCDevice] expected gpu_devices of GPUs but got " +
                          device.description());
  }
  if (devices.size() > 1) {
    throw Unsupported("[MLCDevice] several GPUs as one device are not implemented");
  }
  return py::cast<Device>(devices.front());
}

Device make_device(const Arguments& arguments) {
  if (arguments.given("gpu_devices")) {
    const Where where = arguments.where("gpu_devices");
    return only_gpu(to_items(arguments["gpu_devices"], where), where);
  }
  const auto type = arguments.get<DeviceType>("type");
  if (arguments.get<bool>("selects_multiple_compute_devices") && type == DeviceType::kGpu) {
    throw Unsupported("[MLCDevice] several GPUs as one device are not implemented");
  }
  return warned(Device::of_type(type));
}

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

Device gpu(const Arguments& arguments) {
  const py::object index = arguments["index"];
  const Where where = arguments.where("index");
  if (py::isinstance<py::str>(index)) return warned(Device::gpu(to_text(index, where)));
  return warned(Device::gpu(convert<int>(index, where)));
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
  auto cls = BoundClass<Platform>(module, "MLCPlatform", "Process-wide settings.");
  def_factory(cls, "set_rng_seed_to", "None", {"seed: int"},
              "Sets the seed of random initialisers and of dropout layers without a seed of their "
              "own.",
              [](const Arguments& arguments) {
                Platform::set_rng_seed(arguments.get<std::uint64_t>("seed"));
              });
  def_getter(cls, "get_rng_seed", "int | None", "The seed, or None before one was set.",
             &Platform::rng_seed);
  def_function(module, "set_num_threads", "None", {"count: int, *"},
               "Sets how many threads one step may use; graphs compile again when it changes.",
               [](const Arguments& given) { set_thread_count(given["count"]); });
  def_getter(module, "get_num_threads", "int", "How many threads one step may use.",
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
             "Where it is noted what a backend has passed on this machine.",
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
             "What the plugin for GPUs has code for, by CMake's names. Errors: DeviceError that "
             "says what is missing; no GPU is needed.",
             &Platform::gpu_architectures);
}

}  // namespace

void bind_device(py::module_& module) {
  auto cls = BoundClass<Device>(module, "MLCDevice", "Where a graph runs.");
  def_init(cls,
           {"type: MLCDeviceType | str, selects_multiple_compute_devices: bool = False",
            "gpu_devices: Sequence[Any]"},
           "A device of a type. Errors: DeviceError when there is no such hardware.", make_device);
  def_getter(cls, "cpu", "MLCDevice", "The CPU.", &Device::cpu);
  def_factory(cls, "gpu", "MLCDevice", {"index: int | str = 0"},
              "A GPU by index or UUID, the first one unless told. Errors: DeviceError that says "
              "what is missing, or which UUIDs are there.",
              gpu);
  def_getter(cls, "ane", "MLCDevice", "Apple's neural engine. Errors: DeviceError without one.",
             [] { return Device::of_type(DeviceType::kAne); });
  def_getter(cls, "reference", "MLCDevice",
             "Plain loops in float32 and float64: slow, and the reference for the others.",
             &Device::reference);
  cls.def_property_readonly("type", &Device::type, "The type asked for.");
  cls.def_property_readonly("actual_device_type", &Device::actual_type, "The type in use.");
  cls.def_property_readonly(
      "gpu_devices",
      [](const Device& self) {
        py::typing::List<py::object> devices;
        if (self.actual_type() == DeviceType::kGpu) devices.append(self);
        return devices;
      },
      "The GPUs behind the device; empty for a CPU.");
  cls.def_property_readonly("uuid", &Device::uuid, "GPU-… of a GPU; empty for others.");
  def_copy(cls, [](const Device& self) { return self; });
  def_equal(cls, [](const Device& one, const Device& other) {
    return one.backend() == other.backend() && one.index() == other.index();
  });
  cls.def("__hash__", [](const Device& self) {
    return py::hash(py::make_tuple(self.backend(), self.index()));
  });
  cls.def("__repr__", [](const Device& self) { return "<MLCDevice " + self.description() + ">"; });
  bind_platform(module);
}

}  // namespace traingraph::python
