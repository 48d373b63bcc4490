// Binds MLCTensorData, and adds its bytes and DLPack.
#include "bindings.h"
#include "classes/described_class.h"
#include "classes/signature.h"
#include "convert/convert.h"
#include "convert/data.h"
#include "convert/dlpack.h"
#include "convert/release.h"

namespace traingraph::python {
namespace {

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
  const ClassDescription& description = TensorData::class_description();
  bind_described(module, description, ownership_of_values<TensorData>());
  auto cls = described<TensorData>(module, description.name.c_str());
  cls.def_property_readonly("bytes", array_of, "The memory, as a view of bytes.");
  cls.def("__len__", [](const TensorData& self) { return self.length; });
  cls.def("__dlpack_device__", dlpack_device);
  def_method(
      cls, "__dlpack__", "Any", {kDlpackForm},
      "The memory as a DLPack capsule, which keeps it alive; on a GPU the stream waits for all "
      "work before. Errors: BufferError.",
      [](const TensorData& self, const Arguments& a) {
        return dlpack_capsule(self, "MLCTensorData",
                              {a["stream"], a["max_version"], a["dl_device"], a["copy"]});
      },
      Signature::Kind::kKeywordMethod);
}

}  // namespace traingraph::python
