#pragma once

#include <mutex>
#include <vector>

#include <traingraph/mps/dropout.h>
#include <traingraph/mutex.h>

#include "mps/recording/recording.h"

namespace traingraph::mps {

// The numbers of an encoding: the step, and the seed that a kernel by name has in its place. The
// first encoding has the kernel's own.
void add_dropout_numbers(Recording& recording, const DropoutParameters& parameters,
                         std::int64_t step);

// One encoding of a forward kernel, which all its states share.
class DropoutEncoding {
 public:
  // The images are all that were encoded, as the kernel has seen them.
  DropoutEncoding(const Device& device, const DropoutParameters& parameters, OperationPtr operation,
                  const ImageDescriptor& images, std::int64_t step)
      : images(images),
        step(step),
        device_(device),
        parameters_(parameters),
        operation_(std::move(operation)) {}

  const ImageDescriptor images;
  const std::int64_t step;
  // What the same operation keeps of ones, by element (N, C, H, W): in a run of its own the first
  // time. So it is right whoever draws the masks.
  const std::vector<bool>& kept();

 private:
  std::vector<bool> run() const;

  const Device device_;
  const DropoutParameters parameters_;
  const OperationPtr operation_;
  Mutex mutex_;
  std::vector<bool> kept_;
};

}  // namespace traingraph::mps
