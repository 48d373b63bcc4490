// The memory that the programs of one owner share: values, gradients and workspaces of one run.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/program.h"

namespace traingraph {

// Grows for the largest run. Changed by the holder of the owner's stream alone.
class Arena {
 public:
  explicit Arena(const Backend& backend) : backend_(backend) {}

  // Whether so many bytes move it, and with that lose what runs have left there.
  bool outgrows(std::size_t bytes) const { return bytes > bytes_ && backend_.traits().computes; }
  // Room for so many bytes. One block at a time is held, also while a larger one is asked for.
  // Raises OutOfMemory, and has the block of before then, or none where that is gone as well.
  void grow(std::size_t bytes);
  // Points the program here, unless it is.
  void bind(Program& program) const {
    if (program.arena() != memory_.get()) program.bind_arena(memory_.get());
  }
  const std::shared_ptr<std::byte>& memory() const { return memory_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void place(std::size_t bytes);

  const Backend& backend_;
  std::shared_ptr<std::byte> memory_;
  std::size_t bytes_ = 0;
};

}  // namespace traingraph
