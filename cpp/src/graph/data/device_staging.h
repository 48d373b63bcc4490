// Staging of bound arrays for a device with memory of its own: one slot per tensor, and versions
// that tell which data the device already has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <traingraph/memory_plan.h>
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
struct GivenData {
  TensorData data;
  std::uint64_t version = 0;   // 0: nothing was given
  std::uint64_t call = 0;      // whose argument it was; 0: no call's
  std::uint64_t bound_at = 0;  // see LinkSet::events; 0: not bound
  ChosenRows rows = {};
};

// All data that a tensor was given, by who gave it.
struct InputData {
  GivenData argument;        // the last call that brought some
  GivenData bound;           // bind_and_write_data, or a user gradient
  GivenData own;             // the tensor itself,
  std::uint64_t writes = 0;  // after so many TensorState::writes
};

// A tensor's place on a device that cannot use the host's arrays. An array that lies on the device
// is used in place as long as it is the same one; from the second one on, arrays are copied here,
// so that addresses stay and a recorded run serves them all.
struct DeviceSlot {
  std::shared_ptr<std::byte> memory;
  std::size_t capacity = 0;
  // What follows is touched by whoever holds the stream.
  std::uint64_t version = 0;           // of the data in it
  const std::byte* foreign = nullptr;  // the array that is used in place
  bool copies = false;                 // whether arrays on the device are copied
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
};

// The slots of one graph, and copies of what cannot be used in place. Guarded by the executor's
// mutex; `placed` by the stream.
class DeviceStaging {
 public:
  explicit DeviceStaging(const Backend& backend) : backend_(backend) {}
  DeviceStaging(const DeviceStaging&) = delete;
  DeviceStaging& operator=(const DeviceStaging&) = delete;

  // Room for what the caller gives this tensor; none where the host's arrays are used in place.
  void place(const Tensor& tensor, std::size_t bytes);
  // Has what it will take over from `before` in size, not in content.
  void make_room_like(const DeviceStaging& before);
  // Goes on from what a staging on the same device has, which stays as it is.
  void take_over(const DeviceStaging& before);

  // A copy of data that the caller may change. What it replaces has been dropped.
  TensorData copy_of(const Tensor& tensor, const ir::Type& type, const TensorData& data);
  // Drops copies that nothing reads any more.
  void drop_copies(const Tensor& tensor);

  BoundArray bound(ir::ValueId value, const Tensor& tensor, const ir::Type& type,
                   const GivenData& given);
  // Where the array is for the run, after copying it there unless it is there. `apart`: nothing
  // else that the run touches lies in these bytes.
  std::byte* placed(const BoundArray& array, bool apart);

  // Adds its entries.
  void list(MemoryPlan& plan) const;

 private:
  // Device memory for a copy of data that cannot be used in place.
  struct Copy {
    std::shared_ptr<std::byte> memory;
    std::size_t bytes;
  };

  std::shared_ptr<std::byte> memory_for_copy(const Tensor& tensor, std::size_t bytes);

  const Backend& backend_;
  std::map<const Tensor*, DeviceSlot> slots_;  // entries stay
  std::map<const Tensor*, std::vector<Copy>> copies_;
};

}  // namespace traingraph
