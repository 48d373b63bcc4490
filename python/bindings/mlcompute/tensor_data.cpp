// Binds MLCTensorData, which refers to a buffer in host memory, or by DLPack in a GPU's.
#include "bindings.h"
#include "classes/signature.h"
#include "convert/convert.h"
#include "convert/data.h"
#include "convert/dlpack.h"
#include "convert/release.h"

namespace traingraph::python {
namespace {

TensorData make_tensor_data(const Arguments& arguments) {
  const bool immutable = arguments.given("immutable_bytes_no_copy");
  const char* const argument = immutable ? "immutable_bytes_no_copy" : "bytes_no_copy";
  const py::object bytes = arguments[argument];
  const Target target{"MLCTensorData", argument, {}};
  TensorData data =
      is_on_gpu(bytes, "[MLCTensorData] ") ? raw_gpu_data(bytes, target) : raw_data(bytes, target);
  if (!immutable && !data.writable) {
    throw InvalidArgument(
        "[MLCTensorData] expected writable memory for bytes_no_copy but got read-only memory; use "
        "immutable_bytes_no_copy");
  }
  data.writable = !immutable;
  const std::size_t length = arguments.optional<std::size_t>("length").value_or(data.length);
  if (length > data.length) {
    throw InvalidArgument("[MLCTensorData] expected length of at most " +
                          std::to_string(data.length) + " bytes but got " + std::to_string(length));
  }
  data.length = length;
  if (arguments.given("deallocator")) {
    // Runs the deallocator when the last user of the bytes is gone.
    data.owner = share(py::module_::import("traingraph._deallocation")
                           .attr("Deallocation")(bytes, length, arguments["deallocator"]));
  }
  return data;
}

py::object array_of(const TensorData& self) {
  if (self.gpu >= 0) {
    throw InvalidArgument("[MLCTensorData] expected bytes in host memory but they are on GPU " +
                          std::to_string(self.gpu) + "; read them by DLPack");
  }
  TensorData bytes = self;
  bytes.data_type = DataType::kUInt8;
  bytes.shape = {static_cast<std::int64_t>(self.length)};
  return py::memoryview(view_of(bytes, self.writable));
}

}  // namespace

void bind_tensor_data(py::module_& module) {
  auto cls = BoundClass<TensorData>(module, "MLCTensorData",
                                    "Bytes in host memory, or by DLPack in a GPU's, without a "
                                    "shape of their own but for views of tensors.");
  def_init(cls,
           {"bytes_no_copy: Buffer, length: int | None = None",
            "immutable_bytes_no_copy: Buffer, length: int | None = None",
            "bytes_no_copy: Buffer, length: int | None = None, deallocator: "
            "Callable[[memoryview, int], None]"},
           "Refers to a buffer's memory and keeps the buffer alive. Errors: ValueError for a "
           "buffer that is too short or read-only.",
           make_tensor_data);
  cls.def_property_readonly("bytes", array_of, "The memory, as a view of bytes.");
  cls.def_readonly("length", &TensorData::length, "Units: bytes.");
  cls.def("__len__", [](const TensorData& self) { return self.length; });
  cls.def("__repr__", [](const TensorData& self) {
    return "<MLCTensorData of " + std::to_string(self.length) + " bytes" +
           (self.gpu < 0 ? "" : " on GPU " + std::to_string(self.gpu)) +
           (self.writable ? ">" : ", read-only>");
  });
  cls.def("__dlpack_device__", dlpack_device);
  def_method(
      cls, "__dlpack__", "Any", {kDlpackForm},
      "The memory as a DLPack capsule, which keeps it alive; on a GPU the stream waits for all "
      "work before. Errors: BufferError.",
      [](const TensorData& self, const Arguments& a) {
        return dlpack_capsule(self, a["stream"], a["max_version"], a["dl_device"], a["copy"]);
      },
      Signature::Kind::kKeywordMethod);
}

}  // namespace traingraph::python
