// Sharing a GPU with other libraries: its number, and the order between their streams and the
// backend's.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/backend.h"

namespace traingraph {

class ForeignStreams {
 public:
  virtual ~ForeignStreams() = default;
  // The index of the GPU whose memory the backend's is.
  virtual int gpu() const = 0;
  virtual std::string uuid() const = 0;
  // The stream that everything is ordered on; another one that from now on waits for it, or that
  // it waits for.
  virtual std::uintptr_t stream() const = 0;
  virtual void order_before(std::uintptr_t stream) const = 0;
  virtual void order_after(std::uintptr_t stream) const = 0;
};

// -1 where the backend's memory is of no GPU.
inline int gpu_of(const Backend& backend) {
  return backend.streams() != nullptr ? backend.streams()->gpu() : -1;
}

}  // namespace traingraph
