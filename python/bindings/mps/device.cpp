// Binds devices, buffers and command buffers; adds the array protocols and handlers.
#include <pybind11/numpy.h>

#include "convert/data.h"
#include "convert/errors.h"
#include "convert/release.h"
#include "mps/mps_bindings.h"

namespace traingraph::python {
namespace {

using mps::Buffer;
using mps::CommandBuffer;
using mps::CommandBufferPtr;
using mps::CommandQueue;

void add_completed_handler(CommandBuffer& to, py::object function) {
  const auto kept = share(std::move(function));
  // The buffer owns the function once, where a collection finds it.
  const auto call = [kept = std::weak_ptr(kept)](const CommandBufferPtr& buffer) {
    const HeldGil held;
    const py::object callable = shared_object(kept.lock());
    try {
      call_or_stay(callable, py::make_tuple(buffer));
    } catch (py::error_already_set& failure) {
      failure.discard_as_unraisable(callable);
    }
  };
  to.add_completed_handler(call, kept);
}

// Elements one after another: float32 unless the buffer holds something else.
DataType element_type(const Buffer& buffer) {
  const DataType type = buffer.data_type();
  return type == DataType::kUInt8 && buffer.length() % 4 == 0 ? DataType::kFloat32 : type;
}

py::array copy_of(const Buffer& buffer) {
  const DataType type = element_type(buffer);
  const auto count = static_cast<py::ssize_t>(buffer.length() / element_bytes(type));
  py::array array(dtype_of(type), std::vector<py::ssize_t>{count});
  void* to = array.mutable_data();
  const ReleasedGil released;
  buffer.read(to, buffer.length());
  return array;
}

py::buffer_info memory_of(Buffer& self) {
  const DataType type = element_type(self);
  void* contents = nullptr;
  {
    const ReleasedGil released;
    contents = self.contents();
  }
  if (contents == nullptr) {
    throw Unsupported("[MTLBuffer] a view: these bytes are not in host memory; numpy.array copies");
  }
  const std::string format = type == DataType::kFloat64   ? "d"
                             : type == DataType::kFloat32 ? "f"
                                                          : "B";
  const auto size = static_cast<py::ssize_t>(element_bytes(type));
  const auto count = static_cast<py::ssize_t>(self.length()) / size;
  return {contents, size, format, 1, {count}, {size}};
}

}  // namespace

mps::Device to_mps_device(py::handle value) {
  if (py::isinstance<mps::Device>(value)) return py::cast<mps::Device>(value);
  const traingraph::Device device = to_device(value);
  const std::string index = device.index() == 0 ? "" : ":" + std::to_string(device.index());
  return mps::Device::named(device.backend() + index);
}

void bind_mps_device(py::module_& module) {
  bind_described(module, CommandQueue::class_description(), ownership<CommandQueue>());
  bind_described(module, mps::Device::class_description(), ownership<void>());
  def_getter(module, "create_system_default_device", "MTLDevice",
             "The device that MLCDevice.any() names.", &mps::Device::system_default);

  Ownership of_buffers = ownership<Buffer>();
  of_buffers.shows_memory = true;
  bind_described(module, Buffer::class_description(), of_buffers);
  auto buffer = described<Buffer>(module, "MTLBuffer");
  buffer.def_buffer(memory_of);
  def_method(
      buffer, "__array__", "numpy.ndarray",
      {"dtype: DTypeLike | None = None, copy: bool | None = None"},
      "A copy as a NumPy array, read-only unless a copy is asked for. Errors: ValueError for "
      "copy=False.",
      [](const Buffer& self, const Arguments& arguments) {
        const py::object dtype = arguments["dtype"];
        const py::object copy = arguments["copy"];
        if (!copy.is_none() && !py::cast<bool>(copy)) {
          throw InvalidArgument(
              "[MTLBuffer] expected bytes in host memory for an array that is no copy but they are "
              "on a device; numpy.array copies them");
        }
        py::object array = copy_of(self);
        if (!dtype.is_none()) array = array.attr("astype")(dtype);
        // Who did not ask for a copy may write, and shall learn that the buffer stays as it is.
        if (copy.is_none()) array.attr("setflags")(py::arg("write") = false);
        return array;
      },
      Signature::Kind::kPairMethod);

  bind_described(module, CommandBuffer::class_description(), ownership<CommandBuffer>());
  auto commands = described<CommandBuffer>(module, "MTLCommandBuffer");
  def_method(
      commands, "add_completed_handler", "None", {"handler: Callable[[MTLCommandBuffer], Any]"},
      "Called with the buffer after its run. Errors: after commit.",
      [](CommandBuffer& self, const Arguments& arguments) {
        add_completed_handler(self, to_callable(arguments["handler"], arguments.where("handler")));
      });
  bind_described(module, mps::Predicate::class_description(), ownership<mps::Predicate>());
  bind_described(module, mps::ContinuingCommandBuffer::class_description(),
                 ownership<CommandBuffer>());
}

void bind_mps(py::module_& module) {
  remember_mps_types();
  bind_mps_device(module);
  bind_mps_image(module);
  bind_mps_kernel(module);
  bind_mps_coding(module);
  bind_mps_stored_sources(module);
  bind_mps_batches(module);
  bind_mps_dropout(module);
  bind_mps_convolution_descriptor(module);
  bind_mps_batch_normalization(module);
  bind_mps_loss(module);
  bind_mps_optimizer(module);
  bind_mps_arithmetic(module);
  bind_mps_rearrangement(module);
  bind_mps_convolution_transpose(module);
  bind_mps_nodes(module);
  bind_mps_graph(module);
}

}  // namespace traingraph::python
