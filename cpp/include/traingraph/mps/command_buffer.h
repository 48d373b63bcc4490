// CommandQueue, CommandBuffer and ContinuingCommandBuffer, to which kernels are encoded, and
// Predicate, by which the device skips them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <traingraph/mps/device.h>
#include <traingraph/mps/encoded_on.h>
#include <traingraph/ownership.h>

namespace traingraph::mps {

class Recording;

// Metal's raw values.
enum class CommandBufferStatus : int {
  kNotEnqueued = 0,
  kEnqueued = 1,
  kCommitted = 2,
  kScheduled = 3,
  kCompleted = 4,
  kError = 5,
};

// Four bytes of a buffer that say, at the time when a kernel would run, whether it does: when they
// are not all zero. Kernels encoded before may have written them.
class TRAINGRAPH_API Predicate {
 public:
  // Over a new buffer of four zeros.
  explicit Predicate(const Device& device);
  // Raises InvalidArgument unless the offset, in bytes, is a multiple of 4 inside of the buffer.
  explicit Predicate(std::shared_ptr<Buffer> buffer, std::size_t offset = 0);
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }
  std::size_t offset() const { return offset_; }
  static const ClassDescription& class_description();

 private:
  std::shared_ptr<Buffer> buffer_;
  std::size_t offset_ = 0;
};
using PredicatePtr = std::shared_ptr<const Predicate>;

// Records encodings and runs them in one piece after commit. Several may be in flight; they run in
// the order of their commits.
class TRAINGRAPH_API CommandBuffer : public std::enable_shared_from_this<CommandBuffer> {
 public:
  using Handler = std::function<void(const std::shared_ptr<CommandBuffer>&)>;

  explicit CommandBuffer(const Device& device);
  virtual ~CommandBuffer();
  CommandBuffer(const CommandBuffer&) = delete;
  CommandBuffer& operator=(const CommandBuffer&) = delete;

  const Device& device() const;
  std::string label;

  // Compiles what was recorded, unless the same was recorded before, and queues it. What cannot be
  // compiled raises here; the buffer then has status kError. Raises InvalidArgument the second
  // time.
  virtual void commit();
  // Raises the error of a run that failed.
  void wait_until_completed();
  // Called with the buffer after its run, in the order of the runs, on the thread that made it.
  // Raises InvalidArgument after commit. `object` is kept alive with it.
  void add_completed_handler(Handler handler, std::shared_ptr<const void> object = nullptr);
  // Objects that its handlers keep alive.
  virtual void visit_owned(OwnershipVisitor& visitor) const;
  CommandBufferStatus status() const;
  std::exception_ptr error() const;
  // Seconds of a steady clock; 0 before the run.
  double gpu_start_time() const;
  double gpu_end_time() const;

  // Where encodings go, under the predicate if there is one; null after commit.
  Recording* recording();
  // Tells buffers apart; one for all parts of a ContinuingCommandBuffer.
  std::uint64_t number() const;
  // Its number, and what becomes of it or of this part of it; outlives the buffer.
  BufferRecord record() const;
  static const ClassDescription& class_description();

 protected:
  struct State;
  explicit CommandBuffer(std::shared_ptr<State> state) : state_(std::move(state)) {}
  virtual const std::shared_ptr<State>& state() const { return state_; }
  virtual const Predicate* condition() const { return nullptr; }
  static const std::shared_ptr<State>& state_of(const CommandBuffer& buffer) {
    return buffer.state();
  }
  static std::shared_ptr<CommandBuffer> next_part(const std::shared_ptr<State>& before);

 private:
  std::shared_ptr<State> state_;
};

using CommandBufferPtr = std::shared_ptr<CommandBuffer>;

class TRAINGRAPH_API CommandQueue {
 public:
  explicit CommandQueue(const Device& device) : device_(device) {}
  const Device& device() const { return device_; }
  std::string label;
  CommandBufferPtr make_command_buffer() const { return std::make_shared<CommandBuffer>(device_); }
  static const ClassDescription& class_description();

 private:
  Device device_;
};

// MPSCommandBuffer: a command buffer that can be committed in parts, each a buffer with a status
// and handlers of its own. Temporary images and states live on all parts.
class TRAINGRAPH_API ContinuingCommandBuffer final : public CommandBuffer {
 public:
  // Goes on in `buffer`; one that continues itself is shared, so that both go on together. Raises
  // InvalidArgument for none.
  explicit ContinuingCommandBuffer(CommandBufferPtr buffer);
  explicit ContinuingCommandBuffer(const CommandQueue& queue);

  // The buffer that it was made of, or the current part when that was no ContinuingCommandBuffer.
  const CommandBufferPtr& command_buffer() const;
  // The part that encodings go to, status() and wait_until_completed() speak of, and that is
  // committed next.
  const CommandBufferPtr& root_command_buffer() const { return chain_->root; }
  void commit() override { chain_->root->commit(); }
  // Its parts change on the thread that commits them.
  void visit_owned(OwnershipVisitor&) const override {}
  // Commits the part, and begins another one. Temporary objects with readings left are kept; a part
  // whose predecessor failed fails as well. Raises as commit() does, and goes on no more.
  void commit_and_continue();
  // Decides whether the kernels run that are encoded to this object from now on; may be null.
  // Where one does not run, its results stay what they were: zeros if temporary and not written.
  const PredicatePtr& predicate() const { return predicate_; }
  // Raises InvalidArgument for one of another device.
  void set_predicate(PredicatePtr predicate);
  // Makes the memory that programs work in at least this large now. Waits for what was committed.
  void prefetch_heap(std::size_t bytes);
  static const ClassDescription& class_description();

 private:
  struct Chain {
    CommandBufferPtr root;
  };
  const std::shared_ptr<State>& state() const override { return state_of(*chain_->root); }
  const Predicate* condition() const override { return predicate_.get(); }

  PredicatePtr predicate_;
  CommandBufferPtr wrapped_;  // null unless it continues itself
  std::shared_ptr<Chain> chain_;
};

}  // namespace traingraph::mps
