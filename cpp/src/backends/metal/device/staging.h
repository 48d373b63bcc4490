#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <traingraph/mutex.h>

#include "backends/metal/device/device.h"
#include "backends/metal/device/flight.h"

namespace traingraph::metal {

// Memory through which bytes go between the host and runs in flight. It serves again when nobody
// holds it and its command buffer is done, so there is as much as was ever in flight at once, and
// a step that is like those before it makes none.
struct StagingPiece {
  std::shared_ptr<std::byte> memory;
  std::size_t bytes;
  std::uint64_t last_take;
  // The command buffer that reads or writes it, and where in the device's memory it writes.
  Flight::Number until = 0;
  const std::byte* target = nullptr;
  std::size_t target_bytes = 0;
};

class Staging {
 public:
  explicit Staging(const Flight& flight) : flight_(flight) {}

  // Room for so many bytes or more. Raises OutOfMemory.
  std::shared_ptr<StagingPiece> take(Device& device, std::size_t bytes);
  // Says which command buffer brings the piece's first bytes to `target`; null: it fills the piece.
  void sent(StagingPiece& piece, Flight::Number number, const std::byte* target, std::size_t bytes);
  // What the last of those in flight brings to this address; null where none does.
  const std::byte* last_sent_to(const std::byte* address, std::size_t bytes) const;

 private:
  bool is_free(const std::shared_ptr<StagingPiece>& piece) const;

  const Flight& flight_;
  mutable Mutex mutex_;  // guards what follows
  std::vector<std::shared_ptr<StagingPiece>> pieces_;
  std::uint64_t takes_ = 0;
};

}  // namespace traingraph::metal
