// Which buffers write a storage that outlives them, and the order of commits that follows.
#include <algorithm>
#include <utility>

#include <traingraph/errors.h>

#include "mps/recording/recording.h"

namespace traingraph::mps {

void Recording::note_writing(Storage& storage) {
  if (storage.temporary()) {
    if (storage.written) return;
    storage.written = true;
  } else {
    if (storage.written || storage.pinned) return;
    const std::lock_guard lock(storage.device->mutex);
    if (storage.writers.has(BufferFate::kCommitted) || storage.writers.has(buffer_.number)) return;
    storage.writers.add(buffer_);
  }
  written_.push_back(&storage);
}

void Recording::forget_writing(std::size_t first) {
  for (std::size_t k = first; k < written_.size(); ++k) {
    Storage& storage = *written_[k];
    if (storage.temporary()) {
      storage.written = false;
      continue;
    }
    const std::lock_guard lock(storage.device->mutex);
    storage.writers.forget(buffer_.number);
  }
  written_.resize(std::min(first, written_.size()));
}

void Recording::comes_after(const EncodedOn& writers, const State& state) {
  if (writers.has(BufferFate::kCommitted) || writers.has(buffer_.number)) return;
  order_.push_back({writers, "[" + operations_.back()->subject + "] expected " +
                                 state.description() + " that a committed buffer has written"});
}

void Recording::check_order() const {
  for (const Order& one : order_) {
    if (one.writers.has(BufferFate::kCommitted)) continue;
    throw InvalidArgument(one.expected + " but got one whose buffer was not committed before");
  }
}

}  // namespace traingraph::mps
