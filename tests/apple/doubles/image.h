// Images as arrays of texels in slices of four channels, and what kernels see of them.
#pragma once
#include <limits>
#include <vector>

#include "doubles.h"

struct MPSImageInside {
  NSUInteger width = 0, height = 0, channels = 0, images = 0;
  bool half = false;
  std::vector<float> texels;   // (image, slice, y, x, 4)
  std::uint64_t commands = 0;  // the number of the only command buffer of a temporary image

  NSUInteger slices() const { return (channels + 3) / 4; }
  float& at(NSUInteger image, NSUInteger x, NSUInteger y, NSUInteger channel) {
    return texels[(((image * slices() + channel / 4) * height + y) * width + x) * 4 + channel % 4];
  }
};

namespace apple {

float to_half_and_back(float value);

// One image of a batch, from a channel on.
struct Picture {
  std::shared_ptr<MPSImageInside> storage;
  NSUInteger index = 0;
  NSUInteger first_channel = 0;
  NSUInteger channels = 0;

  NSUInteger width() const { return storage->width; }
  NSUInteger height() const { return storage->height; }
  float get(NSUInteger x, NSUInteger y, NSUInteger channel) const {
    return storage->at(index, x, y, first_channel + channel);
  }
  // What lies outside of the image is zero.
  float get_or_zero(NSInteger x, NSInteger y, NSUInteger channel) const {
    if (!has(x, y)) return 0;
    return get(static_cast<NSUInteger>(x), static_cast<NSUInteger>(y), channel);
  }
  bool has(NSInteger x, NSInteger y) const {
    return x >= 0 && y >= 0 && x < static_cast<NSInteger>(width()) &&
           y < static_cast<NSInteger>(height());
  }
  void set(NSUInteger x, NSUInteger y, NSUInteger channel, float value) const {
    storage->at(index, x, y, first_channel + channel) =
        storage->half ? to_half_and_back(value) : value;
  }
  // Calls visit(x, y, channel) for each value.
  template <class Visit>
  void each(Visit visit) const {
    for (NSUInteger y = 0; y < height(); ++y)
      for (NSUInteger x = 0; x < width(); ++x)
        for (NSUInteger channel = 0; channel < channels; ++channel) visit(x, y, channel);
  }
};
using Pictures = std::vector<Picture>;

// A batch that an encoding reads: each unique temporary image is read once. `what` names the
// kernel.
Pictures read(MPSImageBatch* batch, id<MTLCommandBuffer> commands, const char* what,
              NSUInteger first_channel = 0, NSUInteger most_channels = NSUIntegerMax);
// A batch that an encoding writes, none of which may be among those that it reads.
Pictures write(MPSImageBatch* batch, id<MTLCommandBuffer> commands, const char* what,
               const std::vector<MPSImageBatch*>& sources, NSUInteger first_channel = 0);
// The same of a state; writing does not change its read count.
void read_state(MPSState* state, id<MTLCommandBuffer> commands, const char* what);
void use_state(MPSState* state, id<MTLCommandBuffer> commands, const char* what);
// Each unique state once.
void read_states(MPSStateBatch* states, id<MTLCommandBuffer> commands, const char* what);

// The sentence that a broken rule ends with.
[[noreturn]] void broken(const char* what, const std::string& rule);

}  // namespace apple
