// The Objective-C side of the backend. For .mm files only.
#pragma once

#include <initializer_list>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <traingraph/errors.h>
#include <traingraph/mutex.h>

#import <Metal/Metal.h>
#import <MetalPerformanceShaders/MetalPerformanceShaders.h>

#include "backends/metal/device/device.h"
#include "backends/metal/device/encoding.h"
#include "backends/metal/device/flight.h"
#include "backends/metal/device/image_plan.h"
#include "backends/metal/device/ref.h"
#include "backends/metal/device/staging.h"

namespace traingraph::metal {

class Shader {
 public:
  Ref<id<MTLComputePipelineState>> pipeline;
  NSUInteger group = 1;  // threads of a threadgroup
};

// A buffer and where in it an address lies.
struct Place {
  id<MTLBuffer> buffer;
  NSUInteger offset;
};

struct Device::Objects {
  Ref<id<MTLDevice>> device;
  Ref<id<MTLCommandQueue>> queue;
  Ref<id<MTLLibrary>> library;
  Flight flight;
  Staging staging{flight};
  Flight::Number last_late_read = 0;  // read and written in the order of work

  Mutex mutex;                                             // guards what follows
  std::map<const std::byte*, Ref<id<MTLBuffer>>> buffers;  // by their first address
  std::map<std::string, Shader> shaders;
  DeviceCounters counters;
  std::size_t kept_bytes = 0;
};

// What a run has opened on the device.
struct Encoding::State {
  Ref<id<MTLCommandBuffer>> buffer;
  Ref<id<MTLComputeCommandEncoder>> encoder;  // open, or none
  // What the run's plan says to the kernel that encodes now; null: it shares no images.
  const ImageStep* step = nullptr;
  std::vector<MPSImageBatch*> slots;  // of the plan; the run's pool owns the images
};

// Raises InternalError where no allocation of the device holds the address.
Place place(const Device& device, const std::byte* address);

// "[metal] <what>: <the error's own text>"
std::string text_of(const std::string& what, NSError* error);

// Autoreleased. Raises DeviceError where the queue gives none.
id<MTLCommandBuffer> new_command_buffer(const Device& device);
// Commits it and does not wait: the device's flight knows it until it is done.
Flight::Number commit(const Device& device, id<MTLCommandBuffer> buffer);

// The command buffer of a run, with no encoder open on it: for kernels that open their own.
id<MTLCommandBuffer> command_buffer(Encoding& encoding);

// One dispatch of a hand-written shader over buffers of which some are not the arena's.
void run(Encoding& encoding, const Shader& shader, std::initializer_list<Place> buffers,
         const void* arguments, std::size_t bytes, std::int64_t threads);

}  // namespace traingraph::metal
