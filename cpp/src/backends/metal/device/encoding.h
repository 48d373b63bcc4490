#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/metal/device/device.h"

namespace traingraph::metal {

// What a run has encoded so far on its command buffer.
class Encoding {
 public:
  struct State;  // objects.h; kept by who runs, so that a run makes none
  Encoding(const Device& device, State& state);
  ~Encoding();
  Encoding(const Encoding&) = delete;
  Encoding& operator=(const Encoding&) = delete;

  const Device& device() const { return device_; }
  // One thread per element. Buffers are set at indices 0 …, and behind them the arguments.
  void run(const Shader& shader, const std::byte* const* buffers, std::size_t count,
           const void* arguments, std::size_t bytes, std::int64_t threads);
  // The parts of run(): between them buffers are set on the encoder. Arguments go to `index`.
  void begin(const Shader& shader);
  void dispatch(const Shader& shader, std::size_t index, const void* arguments, std::size_t bytes,
                std::int64_t threads);
  // Commits, and does not wait.
  void commit();

  State& state() const { return state_; }

 private:
  const Device& device_;
  State& state_;
};

}  // namespace traingraph::metal
