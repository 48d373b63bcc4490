#include "backends/metal/device.h"

#include <algorithm>

#include <traingraph/errors.h>

#include "backends/metal/objects.h"
#include "backends/metal/shader_text.h"

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

}  // namespace

std::string text_of(const std::string& what, NSError* error) {
  const char* own = error == nil ? nullptr : [[error localizedDescription] UTF8String];
  return "[metal] " + what + ": " + (own == nullptr ? "no reason given" : own);
}

Device::Device() : objects_(std::make_unique<Objects>()) {
  const Pool pool;
  objects_->device = Ref<id<MTLDevice>>::own(MTLCreateSystemDefaultDevice());
  if (!objects_->device) {
    throw DeviceError("[metal] expected a GPU but Metal finds none");
  }
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
  const std::size_t length = std::max<std::size_t>(bytes, 1);
  auto buffer = Ref<id<MTLBuffer>>::own([objects_->device.get()
      newBufferWithLength:length
                  options:MTLResourceStorageModeShared]);
  if (!buffer) {
    throw OutOfMemory("[metal] expected " + std::to_string(length) +
                      " bytes of memory but the device has no buffer of this size");
  }
  // Metal zeroes new buffers, and places them on pages.
  auto* const first = static_cast<std::byte*>([buffer.get() contents]);
  const std::lock_guard lock(objects_->mutex);
  objects_->buffers.emplace(first, std::move(buffer));
  ++objects_->counters.allocations;
  objects_->counters.allocated_bytes += static_cast<std::int64_t>(length);
  return {first, [objects = objects_.get(), length](std::byte* address) {
            const std::lock_guard freeing(objects->mutex);
            objects->buffers.erase(address);
            objects->counters.allocated_bytes -= static_cast<std::int64_t>(length);
          }};
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
  shader.group =
      std::min<NSUInteger>(256, [shader.pipeline.get() maxTotalThreadsPerThreadgroup]);
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

Place place(const Device& device, const std::byte* address) {
  Device::Objects& objects = device.objects();
  const std::lock_guard lock(objects.mutex);
  auto found = objects.buffers.upper_bound(address);
  if (found == objects.buffers.begin()) throw InternalError("[metal] address of no buffer");
  --found;
  const auto offset = static_cast<NSUInteger>(address - found->first);
  id<MTLBuffer> buffer = found->second.get();
  if (offset >= [buffer length]) throw InternalError("[metal] address behind its buffer");
  return {buffer, offset};
}

}  // namespace traingraph::metal
