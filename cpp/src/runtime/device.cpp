// `Device` by name, index or UUID, and what the platform says about GPUs.
#include <traingraph/device.h>

#include <charconv>
#include <vector>

#include <traingraph/errors.h>
#include <traingraph/message_text.h>

#include "runtime/backend.h"
#include "runtime/device_memory.h"
#include "runtime/foreign_streams.h"
#include "runtime/plugin.h"

namespace traingraph {
namespace {

// A build for Apple's GPUs has their backend inside; NVIDIA's comes as a plugin.
constexpr const char* kApple = "metal";
constexpr const char* kNvidia = "cuda";
// The CPU of a Mac, by Apple's library or by portable loops.
constexpr const char* kAccelerate = "bnns";
constexpr const char* kPortable = "cpu";

// A backend that is built in, or null.
const Backend* built_in(const std::string& name) {
  for (const Backend* backend : backends()) {
    if (backend->name() == name) return backend;
  }
  return nullptr;
}

// Of a backend for Apple's hardware: whether a general name means it on this machine.
bool is_chosen(const char* name) {
  const Backend* backend = built_in(name);
  return backend != nullptr && backend->available().yes && Platform::is_verified(name);
}

// By ASCII alone, which no locale changes.
std::string lowered(std::string text) {
  for (char& c : text) c = 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

// Whether this is a UUID or its beginning, in either case.
bool is_uuid(const std::string& text) { return lowered(text).starts_with("gpu-"); }

// The GPU of "gpu", "gpu:1", "cuda:1", "metal" or "gpu:GPU-…"; nothing for other texts.
std::optional<Device> gpu_named(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const bool here = kind == (built_in(kApple) == nullptr ? kNvidia : kApple);
  if (kind != "gpu" && !here) return std::nullopt;
  if (colon == std::string::npos) return Device::gpu();
  const std::string which = text.substr(colon + 1);
  if (is_uuid(which)) return Device::gpu(which);
  int index = 0;
  const char* end = which.data() + which.size();
  const auto [stop, error] = std::from_chars(which.data(), end, index);
  if (error == std::errc() && stop == end) return Device::gpu(index);
  throw InvalidArgument("[device] expected '" + kind + "' or '" + kind +
                        ":' with an index or UUID but got '" + text + "'");
}

}  // namespace

Device::Device(DeviceType type, std::string backend, int index)
    : type_(type), backend_(std::move(backend)), index_(index) {}

Device Device::cpu() {
  return {DeviceType::kCpu, is_chosen(kAccelerate) ? kAccelerate : kPortable, 0};
}
Device Device::any() { return {DeviceType::kAny, is_chosen(kApple) ? kApple : cpu().backend(), 0}; }
Device Device::reference() { return {DeviceType::kCpu, "reference", 0}; }
Device Device::gpu(int index) {
  if (built_in(kApple) == nullptr) {
    plugin_backend(kNvidia, index);
    return {DeviceType::kGpu, kNvidia, index};
  }
  if (index != 0) {
    throw DeviceError("[device] expected GPU 0, the only one of Metal, but got " +
                      std::to_string(index));
  }
  backend_named(kApple);
  return {DeviceType::kGpu, kApple, 0};
}

Device Device::gpu(const std::string& uuid) {
  if (!is_uuid(uuid)) {
    throw InvalidArgument("[device] expected a UUID 'GPU-…' but got '" + uuid + "'");
  }
  std::vector<int> found;
  std::string known;
  if (built_in(kApple) != nullptr) {
    throw DeviceError("[device] expected an index, for Metal's GPU has no UUID, but got '" + uuid +
                      "'");
  }
  const std::vector<const Backend*>& gpus = plugin_devices(kNvidia);
  for (std::size_t index = 0; index < gpus.size(); ++index) {
    const std::string own = gpus[index]->streams()->uuid();
    known += "\n  " + std::to_string(index) + ": " + own + " " + gpus[index]->devices().at(0);
    if (lowered(own).starts_with(lowered(uuid))) found.push_back(static_cast<int>(index));
  }
  if (found.size() == 1) return gpu(found.front());
  throw DeviceError("[device] expected the UUID of one of" + known + "\nbut got '" + uuid + "'" +
                    (found.empty() ? "" : ", with which several begin"));
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
  if (text == kPortable) return cpu();
  if (const std::optional<Device> found = gpu_named(text)) return *found;
  if (text == "ane") return of_type(DeviceType::kAne);
  if (built_in(text) != nullptr) return {DeviceType::kCpu, text, 0};
  if (text == kApple || text == kAccelerate) {
    throw DeviceError("[device] expected a library for Macs for '" + text +
                      "' but this one was built for another system; use \"cpu\", or \"gpu\" for "
                      "an NVIDIA GPU");
  }
  std::vector<std::string> names{"any", "gpu"};
  if (built_in(kApple) == nullptr) names.emplace_back(kNvidia);
  for (const Backend* backend : backends()) {
    if (backend->traits().computes) names.push_back(backend->name());  // not what only tests plans
  }
  std::string known;
  for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
  throw InvalidArgument(
      "[device] expected one of " + known + " but got '" + text + "'" +
      (text == "mps" ? "; the GPU of a Mac is \"metal\"" : did_you_mean(text, names)));
}

DeviceType Device::actual_type() const {
  return backend_ == kNvidia || backend_ == kApple ? DeviceType::kGpu : DeviceType::kCpu;
}

std::string Device::description() const {
  const std::vector<std::string> names = backend_named(backend_, index_).devices();
  return backend_ + (index_ == 0 ? "" : ":" + std::to_string(index_)) + ": " + names.at(0);
}

std::string Device::uuid() const {
  const ForeignStreams* const streams = backend_named(backend_, index_).streams();
  return streams != nullptr ? streams->uuid() : "";
}
std::uintptr_t Device::stream() const {
  const ForeignStreams* const streams = backend_named(backend_, index_).streams();
  return streams != nullptr ? streams->stream() : 0;
}
void Device::order_before(std::uintptr_t stream) const {
  if (const auto* streams = backend_named(backend_, index_).streams())
    streams->order_before(stream);
}
void Device::order_after(std::uintptr_t stream) const {
  if (const auto* streams = backend_named(backend_, index_).streams()) streams->order_after(stream);
}
void Device::read(void* to, const void* from, std::size_t bytes) const {
  read_memory(backend_named(backend_, index_), to, static_cast<const std::byte*>(from), bytes);
}

std::vector<std::string> Platform::gpus() {
  if (built_in(kApple) != nullptr) return backend_named(kApple).devices();
  std::vector<std::string> names;
  for (const Backend* gpu : plugin_devices(kNvidia)) names.push_back(gpu->devices().at(0));
  return names;
}

std::vector<std::string> Platform::gpu_architectures() {
  if (built_in(kApple) != nullptr) return {};
  return plugin_architectures(kNvidia);
}

void Platform::set_package_folders(std::vector<std::string> folders) {
  traingraph::set_package_folders(std::move(folders));
}

}  // namespace traingraph
