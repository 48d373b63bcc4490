#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>

#include <traingraph/mps/device.h>

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

// Records encodings and runs them in one piece after commit. Several may be in flight; they run in
// the order of their commits.
class TRAINGRAPH_API CommandBuffer : public std::enable_shared_from_this<CommandBuffer> {
 public:
  using Handler = std::function<void(const std::shared_ptr<CommandBuffer>&)>;

  explicit CommandBuffer(const Device& device);
  ~CommandBuffer();
  CommandBuffer(const CommandBuffer&) = delete;
  CommandBuffer& operator=(const CommandBuffer&) = delete;

  const Device& device() const;
  std::string label;

  // Compiles what was recorded, unless the same was recorded before, and queues it. What cannot be
  // compiled raises here; the buffer then has status kError. Raises InvalidArgument the second
  // time.
  void commit();
  // Raises what made the run fail.
  void wait_until_completed();
  // Called with the buffer after its run, in the order of the runs, on the thread that made it.
  // Raises InvalidArgument after commit.
  void add_completed_handler(Handler handler);
  CommandBufferStatus status() const;
  std::exception_ptr error() const;
  // Seconds of a steady clock; 0 before the run.
  double gpu_start_time() const;
  double gpu_end_time() const;

  // Where encodings go; null after commit.
  Recording* recording();
  // Tells buffers apart.
  std::uint64_t number() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

using CommandBufferPtr = std::shared_ptr<CommandBuffer>;

class TRAINGRAPH_API CommandQueue {
 public:
  explicit CommandQueue(const Device& device) : device_(device) {}
  const Device& device() const { return device_; }
  std::string label;
  CommandBufferPtr make_command_buffer() const { return std::make_shared<CommandBuffer>(device_); }

 private:
  Device device_;
};

}  // namespace traingraph::mps
