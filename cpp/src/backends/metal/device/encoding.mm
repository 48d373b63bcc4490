// Dispatches of hand-written shaders on the command buffer of a run.
#include "backends/metal/device/encoding.h"

#include <algorithm>

#include <traingraph/errors.h>

#include "backends/metal/device/objects.h"

namespace traingraph::metal {

namespace {

void close(Encoding::State& state) {
  [state.encoder.get() endEncoding];
  state.encoder = {};
}

}  // namespace

Encoding::Encoding(const Device& device, State& state) : device_(device), state_(state) {
  state_.buffer = Ref<id<MTLCommandBuffer>>::keep(new_command_buffer(device));
}

// An encoder must be ended before it goes, also when a kernel has raised.
Encoding::~Encoding() {
  close(state_);
  state_.buffer = {};
}

void Encoding::run(const Shader& shader, const std::byte* const* buffers, std::size_t count,
                   const void* arguments, std::size_t bytes, std::int64_t threads) {
  begin(shader);
  for (std::size_t i = 0; i < count; ++i) {
    const Place at = place(device_, buffers[i]);
    [state_.encoder.get() setBuffer:at.buffer offset:at.offset atIndex:i];
  }
  dispatch(shader, count, arguments, bytes, threads);
}

void run(Encoding& encoding, const Shader& shader, std::initializer_list<Place> buffers,
         const void* arguments, std::size_t bytes, std::int64_t threads) {
  encoding.begin(shader);
  NSUInteger index = 0;
  for (const Place& at : buffers) {
    [encoding.state().encoder.get() setBuffer:at.buffer offset:at.offset atIndex:index++];
  }
  encoding.dispatch(shader, index, arguments, bytes, threads);
}

void Encoding::begin(const Shader& shader) {
  if (!state_.encoder) {
    state_.encoder =
        Ref<id<MTLComputeCommandEncoder>>::keep([state_.buffer.get() computeCommandEncoder]);
  }
  [state_.encoder.get() setComputePipelineState:shader.pipeline.get()];
}

void Encoding::dispatch(const Shader& shader, std::size_t index, const void* arguments,
                        std::size_t bytes, std::int64_t threads) {
  if (threads == 0) return;
  id<MTLComputeCommandEncoder> encoder = state_.encoder.get();
  if (bytes != 0) [encoder setBytes:arguments length:bytes atIndex:index];
  const auto width = static_cast<NSUInteger>(threads);
  [encoder dispatchThreads:MTLSizeMake(width, 1, 1)
      threadsPerThreadgroup:MTLSizeMake(std::min(width, shader.group), 1, 1)];
}

void Encoding::commit() {
  close(state_);
  metal::commit(device_, state_.buffer.get());
}

id<MTLCommandBuffer> new_command_buffer(const Device& device) {
  id<MTLCommandBuffer> buffer = [device.objects().queue.get() commandBuffer];
  if (buffer == nil) throw DeviceError("[metal] expected a command buffer but got none");
  return buffer;
}

// The handler runs on a thread of Metal's. The device is never destroyed, so neither is its flight.
Flight::Number commit(const Device& device, id<MTLCommandBuffer> buffer) {
  Flight* const flight = &device.objects().flight;
  const Flight::Number number = flight->begin();
  [buffer addCompletedHandler:^(id<MTLCommandBuffer> done) {
    const bool succeeded = [done status] == MTLCommandBufferStatusCompleted;
    flight->end(number, [done GPUEndTime] - [done GPUStartTime],
                succeeded ? std::string() : text_of("a run failed", [done error]));
  }];
  [buffer commit];
  return number;
}

id<MTLCommandBuffer> command_buffer(Encoding& encoding) {
  close(encoding.state());
  return encoding.state().buffer.get();
}

}  // namespace traingraph::metal
