// How the GPU is found, its memory allocated and its shaders compiled.
#include "backends/metal/device/device.h"

#import <MetalPerformanceShaders/MetalPerformanceShaders.h>

#include <algorithm>

#include <traingraph/errors.h>

#include "backends/metal/device/objects.h"
#include "backends/metal/device/shader_text.h"

namespace traingraph::metal {
namespace {

NSString* text(const std::string& from) { return [NSString stringWithUTF8String:from.c_str()]; }

Ref<id<MTLLibrary>> compiled_shaders(id<MTLDevice> device) {
  const auto options = Ref<MTLCompileOptions*>::own([[MTLCompileOptions alloc] init]);
  // Fast mathematics would drop the tests for NaN and the corrections of sums.
  [options.get() setFastMathEnabled:NO];
  NSError* error = nil;
  const auto library = Ref<id<MTLLibrary>>::own([device newLibraryWithSource:text(kShaderText)
                                                                     options:options.get()
                                                                       error:&error]);
  if (!library) throw DeviceError(text_of("the shaders do not compile", error));
  return library;
}

// A new buffer in the table of addresses, until it is freed. Metal zeroes it, and begins it on a
// page.
std::shared_ptr<std::byte> buffer(Device::Objects& objects, std::size_t bytes) {
  const std::size_t length = std::max<std::size_t>(bytes, 1);
  auto made = Ref<id<MTLBuffer>>::own(
      [objects.device.get() newBufferWithLength:length options:MTLResourceStorageModeShared]);
  if (!made) {
    throw OutOfMemory("[metal] expected " + std::to_string(length) +
                      " bytes of memory but the device has no buffer of this size");
  }
  auto* const first = static_cast<std::byte*>([made.get() contents]);
  const std::lock_guard lock(objects.mutex);
  objects.buffers.emplace(first, std::move(made));
  return {first, [&objects](std::byte* address) {
            const LockUnlessLost freeing(objects.mutex);
            if (freeing) objects.buffers.erase(address);
          }};
}

// What Metal Performance Shaders prefer, or any GPU that they know: over ssh and in services there
// may be no default, and an external GPU may be none of theirs.
Ref<id<MTLDevice>> find_device() {
  if (id<MTLDevice> preferred = MPSGetPreferredDevice(MPSDeviceOptionsDefault); preferred != nil) {
    return Ref<id<MTLDevice>>::keep(preferred);
  }
  const auto all = Ref<NSArray<id<MTLDevice>>*>::own(MTLCopyAllDevices());
  for (id<MTLDevice> device in all.get()) {
    if (MPSSupportsMTLDevice(device)) return Ref<id<MTLDevice>>::keep(device);
  }
  if ([all.get() count] == 0) throw DeviceError("[metal] expected a GPU but Metal finds none");
  throw DeviceError("[metal] expected a GPU of which Metal Performance Shaders know but got '" +
                    std::string([[[all.get() firstObject] name] UTF8String]) + "'");
}

}  // namespace

std::string text_of(const std::string& what, NSError* error) {
  const char* own = error == nil ? nullptr : [[error localizedDescription] UTF8String];
  return "[metal] " + what + ": " + (own == nullptr ? "no reason given" : own);
}

Device::Device() : objects_(std::make_unique<Objects>()) {
  const Pool pool;
  objects_->device = find_device();
  objects_->queue = Ref<id<MTLCommandQueue>>::own([objects_->device.get() newCommandQueue]);
  if (!objects_->queue) throw DeviceError("[metal] expected a command queue but got none");
  objects_->library = compiled_shaders(objects_->device.get());
}

Device::~Device() = default;

std::string Device::name() const {
  const Pool pool;
  return [[objects_->device.get() name] UTF8String];
}

std::shared_ptr<std::byte> Device::allocate(std::size_t bytes) {
  const auto count = [objects = objects_.get()](std::int64_t length) {
    const LockUnlessLost lock(objects->mutex);
    if (!lock) return;
    objects->counters.allocations += length > 0 ? 1 : 0;
    objects->counters.allocated_bytes += length;
  };
  const auto length = static_cast<std::int64_t>(bytes);
  std::shared_ptr<std::byte> memory = buffer(*objects_, bytes);
  count(length);
  std::byte* const first = memory.get();
  return {first, [count, length, memory = std::move(memory)](std::byte*) { count(-length); }};
}

std::shared_ptr<std::byte> Device::keep(std::size_t bytes) {
  std::shared_ptr<std::byte> memory = buffer(*objects_, bytes);
  const std::lock_guard lock(objects_->mutex);
  objects_->kept_bytes += bytes;
  std::byte* const first = memory.get();
  return {first, [objects = objects_.get(), bytes, memory = std::move(memory)](std::byte*) {
            const LockUnlessLost freeing(objects->mutex);
            if (freeing) objects->kept_bytes -= bytes;
          }};
}

std::size_t Device::kept_bytes() const {
  const std::lock_guard lock(objects_->mutex);
  return objects_->kept_bytes;
}

const Shader& Device::shader(const std::string& name) {
  const std::lock_guard lock(objects_->mutex);
  const auto known = objects_->shaders.find(name);
  if (known != objects_->shaders.end()) return known->second;
  const Pool pool;
  const auto function =
      Ref<id<MTLFunction>>::own([objects_->library.get() newFunctionWithName:text(name)]);
  if (!function) throw InternalError("[metal] expected a shader named '" + name + "'");
  NSError* error = nil;
  Shader shader;
  shader.pipeline = Ref<id<MTLComputePipelineState>>::own(
      [objects_->device.get() newComputePipelineStateWithFunction:function.get() error:&error]);
  if (!shader.pipeline) throw DeviceError(text_of("no pipeline for '" + name + "'", error));
  shader.group = std::min<NSUInteger>(256, [shader.pipeline.get() maxTotalThreadsPerThreadgroup]);
  return objects_->shaders.emplace(name, std::move(shader)).first->second;
}

void Device::count_launches(std::int64_t kernels) {
  const std::lock_guard lock(objects_->mutex);
  objects_->counters.launches += kernels;
}

void Device::count_copies(std::int64_t in, std::int64_t out, std::int64_t within) {
  const std::lock_guard lock(objects_->mutex);
  objects_->counters.copies_in += in;
  objects_->counters.copies_out += out;
  objects_->counters.copies_within += within;
}

DeviceCounters Device::counters() const {
  const std::lock_guard lock(objects_->mutex);
  return objects_->counters;
}

namespace {

// The buffer that begins at the address or before it, if any; whether the address lies in it.
auto find(Device::Objects& objects, const std::byte* address) {
  auto found = objects.buffers.upper_bound(address);
  const bool begins = found != objects.buffers.begin();
  if (begins) --found;
  const bool inside =
      begins && static_cast<NSUInteger>(address - found->first) < [found->second.get() length];
  return std::pair(found, inside);
}

}  // namespace

bool Device::holds(const std::byte* address) const {
  const std::lock_guard lock(objects_->mutex);
  return find(*objects_, address).second;
}

double Device::seconds() const { return objects_->flight.seconds(); }

Place place(const Device& device, const std::byte* address) {
  Device::Objects& objects = device.objects();
  const std::lock_guard lock(objects.mutex);
  const auto [found, inside] = find(objects, address);
  if (!inside) throw InternalError("[metal] address of no buffer");
  return {found->second.get(), static_cast<NSUInteger>(address - found->first)};
}

}  // namespace traingraph::metal
