// The binary interface of DLPack 1.3, as far as arrays in memory of CPUs and NVIDIA's GPUs need it:
// the layout of these structures and the meaning of these numbers are public and fixed.
#pragma once

#include <cstdint>

namespace traingraph::python::dlpack {

enum DeviceType : std::int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };
enum TypeCode : std::uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kBool = 6 };
constexpr std::uint64_t kReadOnly = 1;  // a bit of VersionedTensor::flags

struct Device {
  std::int32_t type;
  std::int32_t index;
};

struct ElementType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct Array {
  void* data;
  Device device;
  std::int32_t dimensions;
  ElementType type;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: dense row-major
  std::uint64_t byte_offset;
};

// In a capsule "dltensor".
struct ManagedTensor {
  static constexpr const char* kName = "dltensor";
  static constexpr const char* kUsed = "used_dltensor";
  static constexpr const char* kOwned = "traingraph.dltensor";  // of our own capsule
  Array array;
  void* context;
  void (*deleter)(ManagedTensor*);
};

// In a capsule "dltensor_versioned".
struct VersionedTensor {
  static constexpr const char* kName = "dltensor_versioned";
  static constexpr const char* kUsed = "used_dltensor_versioned";
  static constexpr const char* kOwned = "traingraph.dltensor_versioned";
  std::uint32_t major;
  std::uint32_t minor;
  void* context;
  void (*deleter)(VersionedTensor*);
  std::uint64_t flags;
  Array array;
};

// What a type of arrays may offer in the capsule `kName` of its attribute `kAttribute`: the same
// without Python's calls. Functions give -1 with Python's error set.
struct ExchangeTable {
  static constexpr const char* kAttribute = "__dlpack_c_exchange_api__";
  static constexpr const char* kName = "dlpack_exchange_api";
  std::uint32_t major;
  std::uint32_t minor;
  ExchangeTable* older;
  void* allocate;
  // Without ordering any work.
  int (*from_object)(void* object, VersionedTensor** tensor);
  void* to_object;
  void* borrow;
  // On which the producer enqueues now; null is CUDA's default stream.
  int (*current_stream)(std::int32_t device_type, std::int32_t device_index, void** stream);
};

}  // namespace traingraph::python::dlpack
