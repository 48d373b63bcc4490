// Imports and exports arrays by DLPack: capsules with and without a version, the C exchange table,
// and the order of work on GPU streams.
#include "convert/dlpack.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <vector>

#include <traingraph/device.h>
#include <traingraph/errors.h>

#include "convert/convert.h"
#include "convert/dlpack_abi.h"
#include "convert/gil.h"
#include "convert/release.h"

namespace py = pybind11;

namespace traingraph::python {
namespace {

struct TypeRow {
  DataType type;
  dlpack::TypeCode code;
  std::uint8_t bits;
};
constexpr std::array<TypeRow, 9> kTypes = {{
    {DataType::kFloat32, dlpack::kFloat, 32},
    {DataType::kFloat64, dlpack::kFloat, 64},
    {DataType::kFloat16, dlpack::kFloat, 16},
    {DataType::kBFloat16, dlpack::kBfloat, 16},
    {DataType::kInt8, dlpack::kInt, 8},
    {DataType::kInt32, dlpack::kInt, 32},
    {DataType::kInt64, dlpack::kInt, 64},
    {DataType::kUInt8, dlpack::kUInt, 8},
    {DataType::kBoolean, dlpack::kBool, 8},
}};

DataType data_type_of(const dlpack::ElementType& type) {
  for (const TypeRow& row : kTypes) {
    if (row.code == type.code && row.bits == type.bits && type.lanes == 1) return row.type;
  }
  return DataType::kInvalid;
}

std::string name_of(const dlpack::ElementType& type) {
  const DataType known = data_type_of(type);
  if (known != DataType::kInvalid) return name(known);
  return "elements of DLPack type " + std::to_string(type.code) + " with " +
         std::to_string(type.bits) + " bits";
}

bool is_dense(const dlpack::Array& array) {
  if (array.strides == nullptr || std::count(array.shape, array.shape + array.dimensions, 0) > 0) {
    return true;
  }
  std::int64_t expected = 1;
  for (int axis = array.dimensions; axis-- > 0;) {
    if (array.shape[axis] != 1 && array.strides[axis] != expected) return false;
    expected *= array.shape[axis];
  }
  return true;
}

void check_axes(const dlpack::Array& array, const std::string& subject) {
  constexpr int kMostAxes = 64;  // of NumPy's arrays
  if (array.dimensions < 0 || array.dimensions > kMostAxes) {
    throw ShapeError(subject + "expected an array of at most " + std::to_string(kMostAxes) +
                     " axes but got " + std::to_string(array.dimensions));
  }
  if (array.dimensions > 0 && array.shape == nullptr) {
    throw ShapeError(subject + "expected extents of " + std::to_string(array.dimensions) +
                     " axes but got a null pointer");
  }
}

// In bytes. Where an axis has one element its stride leads nowhere, and may be any number.
Shape strides_of(const dlpack::Array& array, const std::string& subject) {
  if (array.strides == nullptr) return {};
  const std::int64_t bytes = std::max(1, array.type.bits / 8);
  Shape strides;
  for (int axis = 0; axis < array.dimensions; ++axis) {
    const std::int64_t stride = array.shape[axis] > 1 ? array.strides[axis] : 1;
    if (stride < -kMostBytes / bytes || stride > kMostBytes / bytes) {
      throw ShapeError(subject + "expected strides of at most " + std::to_string(kMostBytes) +
                       " bytes but got " + std::to_string(stride) + " elements of " +
                       name_of(array.type));
    }
    strides.push_back(stride * bytes);
  }
  return strides;
}

// Type and index are numbers, the type often of an enumeration.
dlpack::Device device_of(py::handle value, const std::string& subject) {
  const py::object given = value.attr("__dlpack_device__")();
  const auto pair =
      py::isinstance<py::tuple>(given) ? py::reinterpret_borrow<py::tuple>(given) : py::tuple();
  dlpack::Device device{};
  int found = 0;
  for (const py::handle number : pair) {
    int overflow = 0;
    if (!PyIndex_Check(number.ptr())) break;
    const long value_of = PyLong_AsLongAndOverflow(number.ptr(), &overflow);
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    using Limits = std::numeric_limits<std::int32_t>;
    if (overflow != 0 || found == 2) break;
    if (value_of < Limits::min() || value_of > Limits::max()) break;
    (found++ == 0 ? device.type : device.index) = static_cast<std::int32_t>(value_of);
  }
  if (found == 2 && pair.size() == 2) return device;
  throw InvalidArgument(subject + "expected two small numbers of __dlpack_device__ but got " +
                        printable_ascii(given));
}

bool is_gpu(const dlpack::Device& device) {
  return device.type == dlpack::kCuda || device.type == dlpack::kCudaManaged;
}

// The GPU of this index, whose stream the producer's work must stand before.
Device reachable_gpu(int gpu, const std::string& subject) {
  try {
    return Device::gpu(gpu);
  } catch (const DeviceError& error) {
    throw InvalidArgument(subject + "expected memory of the host but got memory of GPU " +
                          std::to_string(gpu) +
                          "; copy it there, because no GPU can be used here: " + error.what());
  }
}

void check_device(const dlpack::Device& device, const std::string& subject) {
  if (is_gpu(device) || device.type == dlpack::kCpu || device.type == dlpack::kCudaHost) return;
  throw InvalidArgument(subject + "expected memory of the host or of an NVIDIA GPU but got an " +
                        "array on a device of DLPack type " + std::to_string(device.type));
}

// Producers from before DLPack 1.0 know no version.
py::object capsule_of(py::handle value, py::dict keywords) {
  const py::object method = value.attr("__dlpack__");
  keywords["max_version"] = py::make_tuple(1, 0);
  try {
    return method(**keywords);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  keywords.attr("pop")("max_version");
  return method(**keywords);
}

// The table of a type of arrays, null without one that is understood.
const dlpack::ExchangeTable* table_of(py::handle value) {
  const auto type = reinterpret_cast<PyObject*>(Py_TYPE(value.ptr()));
  const auto capsule = py::reinterpret_steal<py::object>(
      PyObject_GetAttrString(type, dlpack::ExchangeTable::kAttribute));
  const void* table =
      capsule ? PyCapsule_GetPointer(capsule.ptr(), dlpack::ExchangeTable::kName) : nullptr;
  PyErr_Clear();
  const auto* known = static_cast<const dlpack::ExchangeTable*>(table);
  return known != nullptr && known->major == 1 ? known : nullptr;
}

// A capsule that nobody else takes over, and that calls the deleter.
template <class Managed>
py::object owner_of(Managed* managed) {
  auto capsule = py::reinterpret_steal<py::object>(
      PyCapsule_New(managed, Managed::kOwned, [](PyObject* dropped) {
        auto* const held = static_cast<Managed*>(PyCapsule_GetPointer(dropped, Managed::kOwned));
        if (held->deleter != nullptr) held->deleter(held);
      }));
  if (!capsule) throw py::error_already_set();
  return capsule;
}

// Takes over what a capsule has, as DLPack asks: who is given the same capsule finds it used.
template <class Managed>
bool take_over(py::object& capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), Managed::kName) == 0) return false;
  py::object owner =
      owner_of(static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), Managed::kName)));
  PyCapsule_SetName(capsule.ptr(), Managed::kUsed);
  capsule = std::move(owner);
  return true;
}

// The capsule that __dlpack__ would give, after what the producer has enqueued.
py::object exchanged(const dlpack::ExchangeTable& table, py::handle value,
                     const std::string& subject) {
  using Managed = dlpack::VersionedTensor;
  Managed* managed = nullptr;
  if (table.from_object(value.ptr(), &managed) != 0) throw py::error_already_set();
  py::object capsule = owner_of(managed);
  const dlpack::Device device = managed->array.device;
  if (!is_gpu(device)) return capsule;
  const Device gpu = reachable_gpu(device.index, subject);
  void* stream = nullptr;
  if (table.current_stream(device.type, device.index, &stream) != 0) {
    throw py::error_already_set();
  }
  gpu.order_after(reinterpret_cast<std::uintptr_t>(stream));
  return capsule;
}

template <class Managed>
Managed* managed_in(const py::object& capsule) {
  return PyCapsule_IsValid(capsule.ptr(), Managed::kOwned) != 0
             ? static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), Managed::kOwned))
             : nullptr;
}

// What an exported capsule's structure points to.
template <class Managed>
struct Exported {
  Managed managed{};
  TensorData data;
  Shape strides;
};

template <class Managed>
void destroy(Managed* managed) {
  delete static_cast<Exported<Managed>*>(managed->context);
}

// Who takes the array renames the capsule, and calls the deleter then.
template <class Managed>
void drop_unused(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, Managed::kName) == 0) return;
  destroy(static_cast<Managed*>(PyCapsule_GetPointer(capsule, Managed::kName)));
}

void set_version(dlpack::ManagedTensor&, bool) {}
void set_version(dlpack::VersionedTensor& tensor, bool writable) {
  tensor.major = 1;
  tensor.minor = 0;
  tensor.flags = writable ? 0 : dlpack::kReadOnly;
}

template <class Managed>
py::object exported(const TensorData& data) {
  auto holder = std::make_unique<Exported<Managed>>();
  holder->data = data;
  TensorData& held = holder->data;
  if (held.data_type == DataType::kInvalid) {
    held.data_type = DataType::kUInt8;
    held.shape = {static_cast<std::int64_t>(held.length)};
  }
  const auto* row = std::ranges::find(kTypes, held.data_type, &TypeRow::type);
  holder->strides = held.shape;
  std::int64_t stride = 1;
  for (std::size_t axis = held.shape.size(); axis-- > 0; stride *= held.shape[axis]) {
    holder->strides[axis] = stride;
  }
  Managed& managed = holder->managed;
  set_version(managed, held.writable);
  managed.context = holder.get();
  managed.deleter = destroy<Managed>;
  const bool on_gpu = held.gpu >= 0;
  managed.array = {held.bytes,
                   {on_gpu ? dlpack::kCuda : dlpack::kCpu, on_gpu ? held.gpu : 0},
                   static_cast<std::int32_t>(held.shape.size()),
                   {row->code, row->bits, 1},
                   held.shape.data(),
                   holder->strides.data(),
                   0};
  PyObject* const capsule = PyCapsule_New(&managed, Managed::kName, drop_unused<Managed>);
  if (capsule == nullptr) throw py::error_already_set();
  static_cast<void>(holder.release());
  return py::reinterpret_steal<py::object>(capsule);
}

}  // namespace

bool is_on_gpu(py::handle value, const std::string& subject) {
  return py::hasattr(value, "__dlpack_device__") && py::hasattr(value, "__dlpack__") &&
         is_gpu(device_of(value, subject));
}

ForeignArray foreign_array(py::handle value, const std::string& subject) {
  py::object capsule;
  if (const dlpack::ExchangeTable* table = table_of(value)) {
    capsule = exchanged(*table, value, subject);
  } else {
    const dlpack::Device device = device_of(value, subject);
    check_device(device, subject);
    py::dict keywords;
    if (is_gpu(device)) keywords["stream"] = reachable_gpu(device.index, subject).stream();
    capsule = capsule_of(value, keywords);
    if (!take_over<dlpack::VersionedTensor>(capsule)) take_over<dlpack::ManagedTensor>(capsule);
  }
  auto* const versioned = managed_in<dlpack::VersionedTensor>(capsule);
  auto* const managed = managed_in<dlpack::ManagedTensor>(capsule);
  const bool known = managed != nullptr || (versioned != nullptr && versioned->major == 1);
  if (!known) throw InvalidArgument(subject + "expected a DLPack capsule of version 0 or 1");
  const dlpack::Array& array = managed != nullptr ? managed->array : versioned->array;
  check_device(array.device, subject);
  check_axes(array, subject);
  ForeignArray result;
  TensorData& data = result.data;
  data.bytes = static_cast<std::byte*>(array.data) + array.byte_offset;
  data.data_type = data_type_of(array.type);
  data.shape.assign(array.shape, array.shape + array.dimensions);
  const std::int64_t elements = element_count(data.shape);
  const bool is_shape = std::ranges::none_of(data.shape, [](std::int64_t e) { return e < 0; });
  if (!is_shape || elements > kMostBytes || elements * array.type.bits / 8 > kMostBytes) {
    throw ShapeError(subject + "expected an array of at most " + std::to_string(kMostBytes) +
                     " bytes but got " + to_string(data.shape) + " of " + name_of(array.type));
  }
  if (elements > 0 && array.data == nullptr) {
    throw InvalidArgument(subject + "expected memory of an array " + to_string(data.shape) +
                          " but got a null pointer");
  }
  data.length = static_cast<std::size_t>(elements * array.type.bits / 8);
  data.writable = versioned == nullptr || (versioned->flags & dlpack::kReadOnly) == 0;
  data.gpu = is_gpu(array.device) ? array.device.index : -1;
  result.element_type = name_of(array.type);
  result.dense = is_dense(array);
  result.strides = strides_of(array, subject);
  // It calls the deleter, where Python runs.
  data.owner = share(std::move(capsule));
  return result;
}

py::typing::Tuple<int, int> dlpack_device(const TensorData& data) {
  const bool on_gpu = data.gpu >= 0;
  const int type = on_gpu ? dlpack::kCuda : dlpack::kCpu;
  return py::make_tuple(type, on_gpu ? data.gpu : 0);
}

py::object dlpack_capsule(const TensorData& data, const char* of, const DlpackArguments& given) {
  const std::string subject = std::string("[") + of + "] ";
  const auto two_numbers = [of](const py::object& value, const char* name) {
    const Where where{of, name, "tuple[int, int] | None"};
    std::vector<std::int64_t> numbers = convert_list<std::int64_t>(value, where);
    if (numbers.size() != 2) refuse(where, value);
    return numbers;
  };
  const bool on_gpu = data.gpu >= 0;
  if (!given.dl_device.is_none()) {
    const Shape own = {on_gpu ? dlpack::kCuda : dlpack::kCpu, on_gpu ? data.gpu : 0};
    if (const Shape device = two_numbers(given.dl_device, "dl_device"); device != own) {
      throw py::buffer_error(subject + "expected its own device for dl_device but got " +
                             to_string(device));
    }
  }
  if (!given.copy.is_none() && to_bool(given.copy, {of, "copy", "bool | None"})) {
    throw py::buffer_error(subject + "expected copy=False, because a view is handed out");
  }
  const auto stream =
      given.stream.is_none() ? std::int64_t{1} : to_integer(given.stream, {of, "stream", "int"});
  if (on_gpu && (stream == 0 || stream < -1)) {
    throw py::buffer_error(subject +
                           "expected a stream of None, -1, 1, 2 or a stream's address but got " +
                           std::to_string(stream));
  }
  const bool versioned =
      !given.max_version.is_none() && two_numbers(given.max_version, "max_version")[0] >= 1;
  if (on_gpu && stream != -1) {
    const ReleasedGil released;
    Device::gpu(data.gpu).order_before(static_cast<std::uintptr_t>(stream));
  }
  return versioned ? exported<dlpack::VersionedTensor>(data)
                   : exported<dlpack::ManagedTensor>(data);
}

}  // namespace traingraph::python
