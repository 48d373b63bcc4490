// Arrays and memory among the value types of described functions.

#include "classes/python_types.h"
#include "convert/data.h"
#include "convert/dlpack.h"
#include "convert/names.h"
#include "convert/release.h"
#include "convert/saved_arrays.h"

namespace traingraph::python {
namespace {

constexpr const char* kArray = "numpy.typing.ArrayLike | MLCTensorData";

auto shared(py::handle value) { return share(py::reinterpret_borrow<py::object>(value)); }

Target target_of(const Where& where) { return {where.subject.c_str(), where.name.c_str(), {}}; }

using Read = TensorData (*)(py::handle value, DataType type, const Target& target);

// What is read later, of a caller that may have let the GIL go.
template <Read kRead>
ReadElements reading(py::handle value, const Where& where) {
  return [kept = shared(value), subject = where.subject](DataType type, const char* role,
                                                         const std::string& name) {
    const HeldGil held;
    return kRead(shared_object(kept), type, {subject.c_str(), role, name});
  };
}

NamedDataToRead to_named_data(py::handle value, const Where& where) {
  return {[kept = shared(value), where](const NamedTensors& declared, const char* role) {
    const HeldGil held;
    return named_data(shared_object(kept), declared, where.subject.c_str(), where.name.c_str(),
                      role, Access::kRead);
  }};
}

StateToRead to_state(py::handle value, const Where& where) {
  return {[kept = shared(value), where](const std::function<NamedData()>& own) {
    const HeldGil held;
    return from_arrays(shared_object(kept), where, [&own] {
      const ReleasedGil released;
      return own();
    });
  }};
}

MemoryInPlace to_memory(py::handle value, const Where& where) {
  const Target target = target_of(where);
  const bool on_gpu = is_on_gpu(value, "[" + where.subject + "] ");
  return {on_gpu ? raw_gpu_data(value, target) : raw_data(value, target), shared(value)};
}

Deallocator to_deallocator(py::handle value, const Where& where) {
  return {[kept = share(to_callable(value, where))](const MemoryInPlace& memory,
                                                    std::size_t length) {
    const py::object made = py::module_::import("traingraph._deallocation").attr("Deallocation");
    return share(made(shared_object(memory.object), length, shared_object(kept)));
  }};
}

// One number, an array, or a tensor with data.
template <typename T>
Numbers<T> to_numbers(py::handle value, const Where& where) {
  if (PyNumber_Check(value.ptr()) != 0 && !py::hasattr(value, "__len__")) {
    return {{convert<T>(value, where)}};
  }
  constexpr DataType kType = std::is_floating_point_v<T> ? DataType::kFloat32 : DataType::kInt64;
  const TensorData data =
      readable_data(value, kType, {where.subject.c_str(), "argument", where.name});
  if (data.data_type == DataType::kInvalid) refuse(where, value);
  const T* const first = static_cast<const T*>(data.bytes);
  return {{first, first + element_count(data.shape)}};
}

template <typename T>
void remember_numbers(const std::string& number) {
  remember_taken<Numbers<T>>(
      number + " | numpy.typing.ArrayLike | MLCTensor",
      [](py::handle value, const Where& where) { return to_numbers<T>(value, where); });
}

}  // namespace

void remember_array_types() {
  remember_taken<DataToRead>(kArray, [](py::handle value, const Where& where) {
    return DataToRead{reading<readable_data>(value, where)};
  });
  remember_taken<DataToShare>(kArray, [](py::handle value, const Where& where) {
    return DataToShare{reading<parameter_data>(value, where)};
  });
  remember_taken<NamedDataToRead>(
      "collections.abc.Mapping[str, " + std::string(kArray) + "]",
      [](py::handle value, const Where& where) { return to_named_data(value, where); });
  remember_taken<StateToRead>(
      "collections.abc.Mapping[str, numpy.typing.ArrayLike]",
      [](py::handle value, const Where& where) { return to_state(value, where); });
  remember_taken<RawBytes>("typing_extensions.Buffer", [](py::handle value, const Where& where) {
    return RawBytes{raw_data(value, target_of(where))};
  });
  remember_taken<MemoryInPlace>(
      "typing_extensions.Buffer",
      [](py::handle value, const Where& where) { return to_memory(value, where); });
  remember_taken<Deallocator>(
      "collections.abc.Callable[[memoryview, int], None]",
      [](py::handle value, const Where& where) { return to_deallocator(value, where); });
  remember_taken<FilePath>("str | os.PathLike[str]", [](py::handle value, const Where& where) {
    return FilePath{to_path(value, where)};
  });
  remember_given<HostArray>(
      "numpy.ndarray", [](const HostArray& array) { return view_of(array.data, array.writable); });
  remember_given<NamedData>("dict[str, numpy.ndarray]",
                            [](const NamedData& data) { return to_arrays(data); });
  remember_list<DataToRead>(kArray);
  remember_list<HostArray>("numpy.ndarray");
  remember_numbers<float>("float");
  remember_numbers<std::int64_t>("int");
}

}  // namespace traingraph::python
