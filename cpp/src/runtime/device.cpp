#include <traingraph/device.h>

#include <charconv>

#include <traingraph/errors.h>

#include "runtime/backend.h"
#include "runtime/plugin.h"

namespace traingraph {
namespace {

constexpr const char* kGpuBackend = "cuda";

// The index of "gpu", "gpu:1" or "cuda:1"; nothing for other texts.
std::optional<int> gpu_index(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  if (kind != "gpu" && kind != kGpuBackend) return std::nullopt;
  if (colon == std::string::npos) return 0;
  int index = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, index);
  if (error == std::errc() && stop == end) return index;
  throw InvalidArgument("[device] expected '" + kind + "' or '" + kind +
                        ":' with an index but got '" + text + "'");
}

}  // namespace

Device::Device(DeviceType type, std::string backend, int index)
    : type_(type), backend_(std::move(backend)), index_(index) {}

Device Device::cpu() { return {DeviceType::kCpu, "cpu", 0}; }
Device Device::any() { return {DeviceType::kAny, "cpu", 0}; }
Device Device::reference() { return {DeviceType::kCpu, "reference", 0}; }
Device Device::gpu(int index) {
  plugin_backend(kGpuBackend, index);
  return {DeviceType::kGpu, kGpuBackend, index};
}

Device Device::of_type(DeviceType type) {
  switch (type) {
    case DeviceType::kCpu:
      return cpu();
    case DeviceType::kGpu:
      return gpu();
    case DeviceType::kAny:
      return any();
    case DeviceType::kAne:
      throw DeviceError("[device] expected hardware of type ANE but this library has none");
  }
  throw InvalidArgument("[device] expected CPU, GPU, ANY or ANE but got " +
                        std::to_string(static_cast<int>(type)));
}

Device Device::named(const std::string& text) {
  if (text == "any") return any();
  if (const std::optional<int> index = gpu_index(text)) return gpu(*index);
  if (text == "ane") return of_type(DeviceType::kAne);
  for (const Backend* backend : backends()) {
    if (backend->name() == text) return {DeviceType::kCpu, text, 0};
  }
  std::string known = "any, gpu";
  for (const Backend* backend : backends()) known += ", " + backend->name();
  throw InvalidArgument("[device] expected one of " + known + " but got '" + text + "'");
}

DeviceType Device::actual_type() const {
  return backend_ == kGpuBackend ? DeviceType::kGpu : DeviceType::kCpu;
}

std::string Device::description() const {
  const std::vector<std::string> names = backend_named(backend_, index_).devices();
  return backend_ + (index_ == 0 ? "" : ":" + std::to_string(index_)) + ": " + names.at(0);
}

std::vector<std::string> Platform::gpus() {
  std::vector<std::string> names;
  for (const Backend* gpu : plugin_devices(kGpuBackend)) names.push_back(gpu->devices().at(0));
  return names;
}

void Platform::set_package_folders(std::vector<std::string> folders) {
  traingraph::set_package_folders(std::move(folders));
}

}  // namespace traingraph
