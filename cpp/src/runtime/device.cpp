#include <traingraph/device.h>

#include <charconv>

#include <traingraph/errors.h>

#include "runtime/backend.h"

namespace traingraph {
namespace {

[[noreturn]] void no_gpu() {
  throw DeviceError("[device] expected a GPU but got none: this build has no GPU backend");
}

}  // namespace

Device::Device(DeviceType type, std::string backend, int index)
    : type_(type), backend_(std::move(backend)), index_(index) {}

Device Device::cpu() { return {DeviceType::kCpu, "cpu", 0}; }
Device Device::any() { return {DeviceType::kAny, "cpu", 0}; }
Device Device::reference() { return {DeviceType::kCpu, "reference", 0}; }
Device Device::gpu(int) { no_gpu(); }

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
  if (text == "gpu" || text.starts_with("gpu:")) no_gpu();
  if (text == "ane") return of_type(DeviceType::kAne);
  for (const Backend* backend : backends()) {
    if (backend->name() == text) return {DeviceType::kCpu, text, 0};
  }
  std::string known = "any, gpu";
  for (const Backend* backend : backends()) known += ", " + backend->name();
  throw InvalidArgument("[device] expected one of " + known + " but got '" + text + "'");
}

DeviceType Device::actual_type() const { return DeviceType::kCpu; }

std::string Device::description() const {
  const std::vector<std::string> names = backend_named(backend_).devices();
  const auto at = static_cast<std::size_t>(index_);
  return backend_ + ": " + (at < names.size() ? names[at] : "");
}

}  // namespace traingraph
