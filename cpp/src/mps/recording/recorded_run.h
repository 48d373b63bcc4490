#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "mps/recording/emission.h"
#include "mps/recording/recording.h"

// What a committed recording does on the stream.
namespace traingraph::mps {

// What tells when a device is done with a run. It brings along what the host has read last, if the
// run is over that storage.
class RunEnd {
 public:
  // Reads behind everything; runs behind it need not wait for that. Null when the device is done.
  static std::shared_ptr<RunEnd> of(DeviceState& device, const std::vector<StoragePtr>& storages,
                                    const std::byte* any);
  // Returns when the device is done. Raises what has failed there.
  void take();

 private:
  std::unique_ptr<PendingRead> pending_;
  StoragePtr storage_;  // null: a byte that nobody wants
  std::size_t first_ = 0;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(1);
};

// Every address, the numbers, the run. Its end, or null when the device is done.
std::shared_ptr<RunEnd> run(DeviceState& device, CompiledRecording& compiled,
                            const std::vector<StoragePtr>& storages,
                            const std::vector<double>& numbers);

}  // namespace traingraph::mps
