// What a graph's tensors were given: arrays by who gave them, copies of what cannot be used in
// place, and for a device with memory of its own a slot, with the version of the data in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <traingraph/tensor.h>

#include "ir/graph.h"
#include "runtime/backend.h"

namespace traingraph {

// Which rows of arrays in the device's memory a call means: those at these places of a list there.
struct ChosenRows {
  std::shared_ptr<const std::byte> places = nullptr;  // int64; null: the first ones
  std::int64_t first = 0, count = 0;                  // in the list
};

// Data that a tensor was given. Versions count up, so that a device knows whether it has this.
struct StoredData {
  TensorData data;
  std::uint64_t version = 0;   // 0: nothing was given
  std::uint64_t call = 0;      // whose argument it was; 0: no call's
  std::uint64_t bound_at = 0;  // see LinkSet::events; 0: not bound
  ChosenRows rows = {};
};

// A tensor's place on a device that cannot use the host's arrays, and on the host for a call with
// fewer rows. An array that lies on the device is used in place as long as it is the same one; from
// the second one on, arrays are copied here, so that addresses stay and a recorded run serves them
// all.
struct DeviceSlot {
  std::shared_ptr<std::byte> memory;
  std::size_t capacity = 0;
  // What follows is touched by whoever holds the stream.
  std::uint64_t version = 0;           // of the data in it
  const std::byte* foreign = nullptr;  // the array that is used in place
  bool copies = false;                 // whether arrays on the device are copied
};

// Memory for a copy of data that cannot be used in place.
struct HostCopy {
  std::shared_ptr<std::byte> memory;
  std::size_t bytes;
};

// All data that a tensor was given, by who gave it. Guarded by the executor's mutex.
struct InputData {
  StoredData argument;       // the last call that brought some
  StoredData bound;          // bind_and_write_data, or a user gradient
  StoredData own;            // the tensor itself,
  std::uint64_t writes = 0;  // after so many TensorState::writes
  DeviceSlot slot;           // without memory where the host's arrays are used in place
  std::vector<HostCopy> copies;
  std::vector<HostCopy> filled;  // for a device: whole batches of calls with fewer rows
};

// Where a bound value's bytes are, and what keeps them there.
struct BoundArray {
  ir::ValueId value;
  std::byte* address;
  std::shared_ptr<const void> owner;
  // Where the bytes go before the run; null: they are used in place.
  DeviceSlot* slot = nullptr;
  std::size_t bytes = 0;
  std::uint64_t version = 0;
  bool on_device = false;  // whether the bytes are in the device's memory
  bool lasting = false;    // whether the address is to be used again
  ChosenRows rows = {};
  std::size_t wanted = 0;  // bytes of the program's value where that has more rows, else 0
  std::size_t row_bytes = 0;
};

// Makes the slot large enough for what the caller gives its tensor.
void reserve(DeviceSlot& slot, const Backend& backend, std::size_t bytes);
// A copy of data that the caller may change. What it replaces has been dropped.
TensorData copy_of(const TensorData& data, const ir::Type& type, const Backend& backend,
                   std::vector<HostCopy>& copies);
// Of an array of this type, with fewer rows than the program's value, makes one with as many: the
// last row is repeated. In the array's slot when it is placed; what has to go from the host to a
// device, at once.
void fill(BoundArray& array, const ir::Type& type, const ir::Type& whole, const Backend& backend,
          std::vector<HostCopy>& filled);
// Drops copies that nothing reads any more.
void drop_unread(std::vector<HostCopy>& copies);
// Where the array is for the run, after copying it there unless it is there. `apart`: nothing else
// that the run touches lies in these bytes. Call while holding the stream.
std::byte* placed(const BoundArray& array, const Backend& backend, bool apart);

}  // namespace traingraph
