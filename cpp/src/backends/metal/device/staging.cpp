#include "backends/metal/device/staging.h"

#include <algorithm>

namespace traingraph::metal {
namespace {

// Lengths are rounded up to it, for small things to share pieces.
constexpr std::size_t kPage = 16384;
// Who has not been taken for so long is of a size that is not asked for any more. A few steps are
// in flight at once, of which each writes a few arrays.
constexpr std::uint64_t kPatience = 256;

}  // namespace

bool Staging::is_free(const std::shared_ptr<StagingPiece>& piece) const {
  return piece.use_count() == 1 && flight_.done(piece->until);
}

std::shared_ptr<StagingPiece> Staging::take(Device& device, std::size_t bytes) {
  const std::size_t length = (bytes + kPage - 1) / kPage * kPage;
  const std::lock_guard lock(mutex_);
  ++takes_;
  for (const std::shared_ptr<StagingPiece>& piece : pieces_) {
    if (piece->bytes != length || !is_free(piece)) continue;
    piece->last_take = takes_;
    return piece;
  }
  std::erase_if(pieces_, [this](const auto& piece) {
    return takes_ - piece->last_take > kPatience && is_free(piece);
  });
  pieces_.push_back(
      std::make_shared<StagingPiece>(StagingPiece{device.keep(length), length, takes_}));
  return pieces_.back();
}

void Staging::sent(StagingPiece& piece, Flight::Number number, const std::byte* target,
                   std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  piece.until = number;
  piece.target = target;
  piece.target_bytes = bytes;
}

const std::byte* Staging::last_sent_to(const std::byte* address, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const StagingPiece* last = nullptr;
  for (const std::shared_ptr<StagingPiece>& piece : pieces_) {
    if (piece->target == nullptr || flight_.done(piece->until)) continue;
    const bool covers =
        piece->target <= address && address + bytes <= piece->target + piece->target_bytes;
    if (covers && (last == nullptr || last->until < piece->until)) last = piece.get();
  }
  return last == nullptr ? nullptr : last->memory.get() + (address - last->target);
}

}  // namespace traingraph::metal
