// Bytes between the host and memory that is shared with the GPU. While nothing is in flight the
// host copies them. Otherwise a write and a late read are blits of their own, ordered between runs
// by the queue, and everything else waits.
#include <cstring>

#include <traingraph/errors.h>

#include "backends/metal/device/objects.h"

namespace traingraph::metal {
namespace {

// Of what blits copy: https://developer.apple.com/documentation/metal/mtlblitcommandencoder
constexpr std::size_t kUnit = 4;

Flight::Number blit(const Device& device, const Place& from, const Place& to, std::size_t bytes) {
  id<MTLCommandBuffer> buffer = new_command_buffer(device);
  id<MTLBlitCommandEncoder> encoder = [buffer blitCommandEncoder];
  [encoder copyFromBuffer:from.buffer
             sourceOffset:from.offset
                 toBuffer:to.buffer
        destinationOffset:to.offset
                     size:bytes];
  [encoder endEncoding];
  return commit(device, buffer);
}

class LateRead final : public PendingRead {
 public:
  LateRead(Flight& flight, Flight::Number after, Flight::Number number,
           std::shared_ptr<StagingPiece> copy, std::size_t bytes)
      : flight_(flight), after_(after), number_(number), copy_(std::move(copy)), bytes_(bytes) {}

  void take(void* to) override {
    flight_.wait_for_run(after_, number_);
    std::memcpy(to, copy_->memory.get(), bytes_);
  }

 private:
  Flight& flight_;
  Flight::Number after_, number_;  // behind the last late read; this one
  std::shared_ptr<StagingPiece> copy_;
  std::size_t bytes_;
};

}  // namespace

void Device::finish() const {
  Flight& flight = objects_->flight;
  flight.wait(flight.last());
}

void Device::write(std::byte* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const Place target = place(*this, to);
  // What runs leave in this memory can be read when they are done.
  if (holds(static_cast<const std::byte*>(from))) finish();
  const bool whole = (target.offset | bytes) % kUnit == 0;
  if (!whole) finish();
  if (objects_->flight.idle()) {
    std::memcpy(to, from, bytes);
  } else {
    const Pool pool;
    const std::shared_ptr<StagingPiece> copy = objects_->staging.take(*this, bytes);
    std::memcpy(copy->memory.get(), from, bytes);
    const Flight::Number number = blit(*this, place(*this, copy->memory.get()), target, bytes);
    objects_->staging.sent(*copy, number, to, bytes);
  }
  count_copies(1, 0, 0);
}

void Device::read(void* to, const std::byte* from, std::size_t bytes) {
  finish();
  std::memcpy(to, from, bytes);
  count_copies(0, 1, 0);
}

void Device::read_written(void* to, const std::byte* from, std::size_t bytes) const {
  const std::byte* sent = objects_->staging.last_sent_to(from, bytes);
  std::memcpy(to, sent == nullptr ? from : sent, bytes);
}

std::unique_ptr<PendingRead> Device::read_later(const std::byte* from, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const Pool pool;
  const Place source = place(*this, from);
  const std::size_t whole = (bytes + kUnit - 1) / kUnit * kUnit;
  const bool possible =
      source.offset % kUnit == 0 && source.offset + whole <= [source.buffer length];
  if (!possible) return nullptr;
  std::shared_ptr<StagingPiece> copy = objects_->staging.take(*this, whole);
  const Flight::Number number = blit(*this, source, place(*this, copy->memory.get()), whole);
  objects_->staging.sent(*copy, number, nullptr, whole);
  const Flight::Number after = std::exchange(objects_->last_late_read, number);
  count_copies(0, 1, 0);
  return std::make_unique<LateRead>(objects_->flight, after, number, std::move(copy), bytes);
}

void Device::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  finish();
  std::memmove(to, from, bytes);
  count_copies(0, 0, 1);
}

void Device::clear(std::byte* at, std::size_t bytes) {
  finish();
  std::memset(at, 0, bytes);
}

}  // namespace traingraph::metal
