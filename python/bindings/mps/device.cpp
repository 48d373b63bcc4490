// Binds MTLDevice, MTLBuffer, MTLCommandQueue, MTLCommandBuffer, MPSCommandBuffer and MPSPredicate.
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
      callable(buffer);
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

std::shared_ptr<Buffer> make_buffer(const Arguments& arguments) {
  const mps::Device device = to_mps_device(arguments["device"]);
  if (!arguments.given("bytes")) {
    return std::make_shared<Buffer>(device, arguments.get<std::size_t>("length"));
  }
  const TensorData data = raw_data(arguments["bytes"], {"MTLBuffer", "bytes", {}});
  return std::make_shared<Buffer>(device, data.bytes, data.length);
}

void bind_predicate(py::module_& module) {
  using Self = mps::Predicate;
  using BufferPtr = std::shared_ptr<Buffer>;
  auto cls = BoundClass<Self, std::shared_ptr<Self>>(
      module, "MPSPredicate",
      "Four bytes that decide, at the time of the run, whether a kernel runs: when not all are 0.");
  const auto make = [](const Arguments& a, const char* buffer) {
    return std::make_shared<Self>(a.get<BufferPtr>(buffer), a.get<std::size_t>("offset"));
  };
  def_init(cls, {"buffer: MTLBuffer, offset: int", "device: MTLDevice | MLCDevice | str"},
           "Of a buffer, or of four zeros of its own. Units: bytes. Errors: an offset that is no "
           "multiple of 4 in the buffer.",
           [make](const Arguments& a) {
             if (a.given("buffer")) return make(a, "buffer");
             return std::make_shared<Self>(to_mps_device(a["device"]));
           });
  def_factory(cls, "predicate", "MPSPredicate", {"with_buffer: MTLBuffer, offset: int"},
              "The same as the constructor.",
              [make](const Arguments& a) { return make(a, "with_buffer"); });
  cls.def_property_readonly("predicate_buffer", &Self::buffer, "Where the four bytes lie.");
  cls.def_property_readonly("predicate_offset", &Self::offset, "Of the first. Units: bytes.");
}

void bind_continuing(py::module_& module) {
  using Self = mps::ContinuingCommandBuffer;
  auto cls = BoundClass<Self, CommandBuffer, std::shared_ptr<Self>>(
      module, "MPSCommandBuffer", "A command buffer that can be committed in parts.");
  def_init(cls, {"command_buffer: MTLCommandBuffer", "from_command_queue: MTLCommandQueue"},
           "Goes on in this buffer, or in a new one. Two over one MPSCommandBuffer go on together.",
           [](const Arguments& arguments) {
             if (arguments.given("command_buffer")) {
               return std::make_shared<Self>(arguments.get<CommandBufferPtr>("command_buffer"));
             }
             return std::make_shared<Self>(
                 *arguments.get<std::shared_ptr<CommandQueue>>("from_command_queue"));
           });
  cls.def_property_readonly(
      "command_buffer", &Self::command_buffer,
      "The MPSCommandBuffer that it was made of; else as root_command_buffer.");
  cls.def_property_readonly(
      "root_command_buffer", &Self::root_command_buffer,
      "The part that is committed next; keep it to wait for it after commit_and_continue.");
  cls.def_released(
      "commit_and_continue", &Self::commit_and_continue,
      "Commits what was recorded, and goes on in a new buffer. Temporary images and states that "
      "are still to be read live on. Errors: as commit; after that it goes on no more.");
  cls.def_property(
      "predicate",
      [](const Self& self) { return std::const_pointer_cast<mps::Predicate>(self.predicate()); },
      [](Self& self, const std::shared_ptr<mps::Predicate>& value) { self.set_predicate(value); },
      "What decides whether the kernels run that are encoded to this object from now on, or None. "
      "Where one does not run its results stay what they were; temporary ones that nothing was "
      "written to are zeros. Errors: one of another device.");
  def_call(cls, "prefetch_heap", "None", "for_workload_size: int",
           "Makes the memory that programs work in at least this large now. Units: bytes.",
           &Self::prefetch_heap, Gil::kReleased);
}

}  // namespace

mps::Device to_mps_device(py::handle value) {
  if (py::isinstance<mps::Device>(value)) return py::cast<mps::Device>(value);
  const traingraph::Device device = to_device(value);
  const std::string index = device.index() == 0 ? "" : ":" + std::to_string(device.index());
  return mps::Device::named(device.backend() + index);
}

void bind_mps_device(py::module_& module) {
  auto queue = BoundClass<CommandQueue, std::shared_ptr<CommandQueue>>(module, "MTLCommandQueue",
                                                                       "Makes command buffers.");
  auto device = BoundClass<mps::Device>(module, "MTLDevice", "One piece of hardware.");
  def_init(device, {"device: MLCDevice | str"},
           "The hardware of an MLCDevice or of a name, an addition of traingraph.",
           [](const Arguments& arguments) { return to_mps_device(arguments["device"]); });
  device.def_property_readonly("name", &mps::Device::name, "What the hardware calls itself.");
  device.def_property_readonly("registry_id", &mps::Device::registry_id,
                               "A number of its own in this process.");
  device.def_property_readonly("compilations", &mps::Device::compilations,
                               "How many recordings were compiled so far.");
  device.def("make_command_queue", &mps::Device::make_command_queue,
             "A new queue; all queues of a device are one order.");
  def_equal(device, std::equal_to<mps::Device>());
  device.def("__hash__", &mps::Device::registry_id);
  device.def("__repr__",
             [](const mps::Device& self) { return "<MTLDevice " + self.backend() + ">"; });
  def_getter(module, "create_system_default_device", "MTLDevice",
             "The device that MLCDevice.any() names.", &mps::Device::system_default);

  auto buffer = BoundClass<Buffer, std::shared_ptr<Buffer>>(
      module, "MTLBuffer",
      "Bytes on a device. numpy.asarray(buffer) shows them where they are in host memory, and is a "
      "read-only copy elsewhere; numpy.array(buffer) copies.",
      py::buffer_protocol());
  def_init(buffer,
           {"device: MTLDevice | MLCDevice | str, length: int",
            "device: MTLDevice | MLCDevice | str, bytes: bytes"},
           "Zeros, or a copy of bytes. Units: length in bytes.", make_buffer);
  buffer.def_buffer(memory_of);
  buffer.def_property_readonly("length", &Buffer::length, "In bytes.");
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
  buffer.def("__repr__", [](const Buffer& self) {
    return "<MTLBuffer " + std::to_string(self.length()) + " bytes>";
  });

  queue.def_property_readonly("device", &CommandQueue::device, "Where its buffers run.");
  queue.def_readwrite("label", &CommandQueue::label, "A name for messages.");

  auto commands = BoundClass<CommandBuffer, CommandBufferPtr>(
      module, "MTLCommandBuffer", "Records encodings and runs them after commit.");
  queue.def("make_command_buffer", &CommandQueue::make_command_buffer, "A new buffer.");
  commands.def_property_readonly("device", &CommandBuffer::device, "Where it runs.");
  commands.def_readwrite("label", &CommandBuffer::label, "A name for messages.");
  commands.def_released(
      "commit", &CommandBuffer::commit,
      "Queues what was recorded. Errors: what cannot be compiled; a second commit.");
  commands.def_released(
      "wait_until_completed", &CommandBuffer::wait_until_completed,
      "Returns when the run and its handlers are done. Errors: what made the run fail.");
  def_method(
      commands, "add_completed_handler", "None", {"handler: Callable[[MTLCommandBuffer], Any]"},
      "Called with the buffer after its run. Errors: after commit.",
      [](CommandBuffer& self, const Arguments& arguments) {
        add_completed_handler(self, to_callable(arguments["handler"], arguments.where("handler")));
      });
  commands.def_property_readonly("status", &CommandBuffer::status, "How far it is.");
  commands.def_property_readonly(
      "error",
      [](const CommandBuffer& self) -> py::object {
        const std::exception_ptr error = self.error();
        return error == nullptr ? py::object(py::none()) : to_python(error);
      },
      "What failed, or None.");
  commands.def_property_readonly("gpu_start_time", &CommandBuffer::gpu_start_time,
                                 "Units: seconds; 0 before the run.");
  commands.def_property_readonly("gpu_end_time", &CommandBuffer::gpu_end_time,
                                 "Units: seconds; 0 before the run.");
  bind_predicate(module);
  bind_continuing(module);
}

void bind_mps(py::module_& module) {
  bind_mps_device(module);
  bind_mps_image(module);
  bind_mps_allocator(module);
  bind_mps_kernel(module);
  bind_mps_coding(module);
  bind_mps_stored_sources(module);
  bind_mps_batches(module);
  bind_mps_dropout(module);
  bind_mps_convolution(module);
  bind_mps_batch_normalization(module);
  bind_mps_loss(module);
  bind_mps_optimizer(module);
  bind_mps_arithmetic(module);
  bind_mps_rearrangement(module);
  bind_mps_normalization(module);
  bind_mps_convolution_transpose(module);
  bind_mps_nodes(module);
  bind_mps_graph(module);
}

}  // namespace traingraph::python
