// Devices, buffers, command buffers and predicates.
#include <traingraph/describe.h>
#include <traingraph/mps/command_buffer.h>

#include "mps/description/describe_kernel.h"

namespace traingraph::mps {
namespace {

using BufferPtr = std::shared_ptr<Buffer>;
using QueuePtr = std::shared_ptr<CommandQueue>;

constexpr const char* kWhere = "The device that holds it.";
constexpr const char* kOffsetText = "The position of the first byte. Units: bytes.";

std::optional<std::exception_ptr> error_of(const CommandBuffer& self) {
  const std::exception_ptr error = self.error();
  return error == nullptr ? std::nullopt : std::optional(error);
}

std::optional<PredicatePtr> predicate_of(const ContinuingCommandBuffer& self) {
  return self.predicate() == nullptr ? std::nullopt : std::optional(self.predicate());
}

// `buffer` is what the form calls it.
auto predicate_over(const char* buffer) {
  return [buffer](const Given& given) {
    return std::make_shared<Predicate>(given.get<BufferPtr>(buffer),
                                       given.get<std::size_t>("offset"));
  };
}

}  // namespace

const ClassDescription& Device::class_description() {
  static const ClassDescription description =
      Describing<Device>("MTLDevice", "One piece of hardware.")
          .text("The hardware of an MLCDevice or of a name, an addition of traingraph.")
          .form({argument<Device>("device", "The device of ML Compute.")},
                [](const Given& given) { return given.get<Device>("device"); })
          .property("name", &Device::name, "The name of the hardware.")
          .property("registry_id", &Device::registry_id, "A number of its own in this process.")
          .property("compilations", &Device::compilations,
                    "The number of recordings compiled so far.")
          .function("make_command_queue", &Device::make_command_queue,
                    "A new queue; all queues of a device are one order.")
          .not_copied()
          .compared(&Device::registry_id)
          .repr(&Device::backend);
  return description;
}

const ClassDescription& Buffer::class_description() {
  const Argument device = argument<Device>("device", kWhere);
  static const ClassDescription description =
      Describing<Buffer, Buffer>("MTLBuffer",
                                 "Bytes on a device. numpy.asarray(buffer) shows them where they "
                                 "are in host memory, and is a read-only copy elsewhere; "
                                 "numpy.array(buffer) copies.")
          .text("Zeros, or a copy of bytes. Units: length in bytes.")
          .form({device, argument<std::size_t>("length", "The length. Units: bytes.", &kOneOrMore)},
                [](const Given& given) {
                  return std::make_shared<Buffer>(given.get<Device>("device"),
                                                  given.get<std::size_t>("length"));
                })
          .form({device, argument<RawBytes>("bytes", "The bytes to copy.")},
                [](const Given& given) {
                  const TensorData data = given.get<RawBytes>("bytes").data;
                  return std::make_shared<Buffer>(given.get<Device>("device"), data.bytes,
                                                  data.length);
                })
          .property("length", &Buffer::length, "In bytes.")
          .repr([](const Buffer& self) { return std::to_string(self.length()) + " bytes"; });
  return description;
}

const ClassDescription& CommandQueue::class_description() {
  static const ClassDescription description =
      Describing<CommandQueue, CommandQueue>("MTLCommandQueue", "Makes command buffers.")
          .property("device", &CommandQueue::device, "The device that runs its command buffers.")
          .settable("label", &CommandQueue::label, "A name for messages.")
          .function("make_command_buffer", &CommandQueue::make_command_buffer, "A new buffer.");
  return description;
}

const ClassDescription& CommandBuffer::class_description() {
  static const ClassDescription description =
      Describing<CommandBuffer, CommandBuffer>("MTLCommandBuffer",
                                               "Records encodings and runs them after commit.")
          .property("device", &CommandBuffer::device, "The device that runs it.")
          .settable("label", &CommandBuffer::label, "A name for messages.")
          .function("commit", &CommandBuffer::commit,
                    "Queues what was recorded. Errors: what cannot be compiled; a second commit.")
          .may_wait()
          .function("wait_until_completed", &CommandBuffer::wait_until_completed,
                    "Returns when the run and its handlers are done. Errors: what made the run "
                    "fail.")
          .may_wait()
          .property("status", &CommandBuffer::status, "The state of its work.")
          .property("error", error_of, "The error of its work, or None.")
          .property("gpu_start_time", &CommandBuffer::gpu_start_time,
                    "Units: seconds; 0 before the run.")
          .property("gpu_end_time", &CommandBuffer::gpu_end_time,
                    "Units: seconds; 0 before the run.");
  return description;
}

const ClassDescription& Predicate::class_description() {
  const Argument offset = argument<std::size_t>("offset", kOffsetText, &kMultipleOfFour);
  static const ClassDescription description =
      Describing<Predicate, Predicate>("MPSPredicate",
                                       "Four bytes that decide, at the time of the run, whether a "
                                       "kernel runs: when not all are 0.")
          .text(
              "Of a buffer, or of four zeros of its own. Errors: an offset that is no multiple of "
              "4 in the buffer.")
          .form({argument<BufferPtr>("buffer", "The buffer that holds the bytes."), offset},
                predicate_over("buffer"))
          .form({argument<Device>("device", kWhere)},
                [](const Given& given) {
                  return std::make_shared<Predicate>(given.get<Device>("device"));
                })
          .factory(
              "predicate", "The same as the constructor.",
              {{argument<BufferPtr>("with_buffer", "The buffer that holds the bytes."), offset}},
              predicate_over("with_buffer"))
          .property("predicate_buffer", &Predicate::buffer, "The buffer of the four bytes.")
          .property("predicate_offset", &Predicate::offset, kOffsetText);
  return description;
}

const ClassDescription& ContinuingCommandBuffer::class_description() {
  using Self = ContinuingCommandBuffer;
  static const ClassDescription description =
      Describing<Self, CommandBuffer>("MPSCommandBuffer",
                                      "A command buffer that can be committed in parts.")
          .text(
              "Goes on in this buffer, or in a new one. Two over one MPSCommandBuffer go on "
              "together.")
          .form({argument<CommandBufferPtr>("command_buffer",
                                            "The command buffer that it begins with.")},
                [](const Given& given) {
                  return std::make_shared<Self>(given.get<CommandBufferPtr>("command_buffer"));
                })
          .form({argument<QueuePtr>("from_command_queue",
                                    "The queue that makes the new command buffer.")},
                [](const Given& given) {
                  return std::make_shared<Self>(*given.get<QueuePtr>("from_command_queue"));
                })
          .property("command_buffer", &Self::command_buffer,
                    "The MPSCommandBuffer that it was made of; else as root_command_buffer.")
          .property("root_command_buffer", &Self::root_command_buffer,
                    "The part that is committed next; keep it to wait for it after "
                    "commit_and_continue.")
          .function("commit_and_continue", &Self::commit_and_continue,
                    "Commits what was recorded, and goes on in a new buffer. Temporary images and "
                    "states that are still to be read live on. Errors: as commit; after that it "
                    "goes on no more.")
          .may_wait()
          .settable(
              "predicate", predicate_of,
              [](Self& self, const std::optional<PredicatePtr>& value) {
                self.set_predicate(value.value_or(nullptr));
              },
              "What decides whether the kernels run that are encoded to this object from now on, "
              "or None. Where one does not run its results stay what they were; temporary ones "
              "that nothing was written to are zeros. Errors: one of another device.")
          .function("prefetch_heap", &Self::prefetch_heap,
                    "Makes the memory that programs work in at least this large now.",
                    {{"for_workload_size", "The size of the workload. Units: bytes."}})
          .may_wait();
  return description;
}

}  // namespace traingraph::mps
