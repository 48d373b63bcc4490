// Devices and the settings of the process.
#include <variant>

#include <traingraph/describe.h>
#include <traingraph/device.h>
#include <traingraph/errors.h>

namespace traingraph {
namespace {

using Devices = std::vector<Device>;

Device only_gpu(const Devices& devices) {
  if (devices.empty()) {
    throw InvalidArgument("[MLCDevice] expected gpu_devices of at least one device but got none");
  }
  for (const Device& device : devices) {
    if (device.actual_type() == DeviceType::kGpu) continue;
    throw InvalidArgument("[MLCDevice] expected gpu_devices of GPUs but got " +
                          device.description());
  }
  if (devices.size() > 1) {
    throw Unsupported("[MLCDevice] several GPUs as one device are not implemented");
  }
  return devices.front();
}

Device of_given_type(const Given& given) {
  const auto type = given.get<DeviceType>("type");
  if (given.get<bool>("selects_multiple_compute_devices") && type == DeviceType::kGpu) {
    throw Unsupported("[MLCDevice] several GPUs as one device are not implemented");
  }
  return Device::of_type(type);
}

using IndexOrUuid = std::variant<int, std::string>;

Device gpu_of(const IndexOrUuid& index) {
  if (const auto* const uuid = std::get_if<std::string>(&index)) return Device::gpu(*uuid);
  return Device::gpu(std::get<int>(index));
}

}  // namespace

const ClassDescription& Platform::class_description() {
  static const ClassDescription description =
      Describing<Platform>("MLCPlatform", "Process-wide settings.")
          .class_function("set_rng_seed_to", &Platform::set_rng_seed,
                          "Sets the seed of random initialisers and of dropout layers without a "
                          "seed of their own.",
                          {{"seed", "Any number of 64 bits."}})
          .class_function("get_rng_seed", &Platform::rng_seed,
                          "The seed, or None before one was set.")
          .not_copied();
  return description;
}

const ClassDescription& Device::class_description() {
  static const ClassDescription description =
      Describing<Device>("MLCDevice", "A device that runs graphs.")
          .text("A device of a type. Errors: DeviceError when there is no such hardware.")
          .form({argument<DeviceType>("type", "The kind of hardware."),
                 argument("selects_multiple_compute_devices", false,
                          "Several GPUs as one device, which is not implemented.")},
                of_given_type)
          .form({argument<Devices>("gpu_devices", "One GPU.")},
                [](const Given& given) { return only_gpu(given.get<Devices>("gpu_devices")); })
          .class_function("cpu", &Device::cpu, "The CPU.")
          .class_function("gpu", gpu_of,
                          "A GPU, the first one unless told. Errors: DeviceError that says what is "
                          "missing, or which UUIDs are there.",
                          {{"index", "Its index, or its UUID.", IndexOrUuid(0)}})
          .class_function(
              "ane", [] { return Device::of_type(DeviceType::kAne); },
              "Apple's neural engine. Errors: DeviceError without one.")
          .class_function("reference", &Device::reference,
                          "Plain loops in float32 and float64: slow, and the reference for the "
                          "others.")
          .property("type", &Device::type, "The type asked for.")
          .property("actual_device_type", &Device::actual_type, "The type in use.")
          .property(
              "gpu_devices",
              [](const Device& self) {
                return self.actual_type() == DeviceType::kGpu ? Devices{self} : Devices();
              },
              "The GPUs behind the device; empty for a CPU.")
          .property("uuid", &Device::uuid, "GPU-… of a GPU; empty for others.")
          .repr(&Device::description)
          .compared([](const Device& self) {
            return std::hash<std::string>()(self.backend()) +
                   static_cast<std::size_t>(self.index());
          });
  return description;
}

}  // namespace traingraph
