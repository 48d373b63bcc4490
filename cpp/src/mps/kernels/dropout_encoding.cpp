#include "mps/kernels/dropout_encoding.h"

#include <bit>

#include "runtime/numbers/philox.h"

namespace traingraph::mps {
namespace {

std::uint64_t seed_by_name(std::uint64_t seed, std::int64_t step) {
  if (step == 0) return seed;
  const philox::Block words = philox::block_of(seed, static_cast<std::uint64_t>(step), 0);
  return words.word[0] | std::uint64_t{words.word[1]} << 32;
}

}  // namespace

void add_dropout_numbers(Recording& recording, const DropoutParameters& parameters,
                         std::int64_t step) {
  recording.number(std::bit_cast<double>(step));
  recording.number(std::bit_cast<double>(seed_by_name(parameters.seed, step)));
}

const std::vector<bool>& DropoutEncoding::kept() {
  {
    const std::lock_guard lock(mutex_);
    if (!kept_.empty()) return kept_;
  }
  // Not under the lock: handlers that run meanwhile may ask too.
  std::vector<bool> found = run();
  const std::lock_guard lock(mutex_);
  if (kept_.empty()) kept_ = std::move(found);
  return kept_;
}

std::vector<bool> DropoutEncoding::run() const {
  const CommandBufferPtr buffer = device_.make_command_queue()->make_command_buffer();
  const ImagePtr x = Image::create(device_, images), y = Image::create(device_, images);
  PixelLayout layout;
  layout.images = images.number_of_images;
  const std::size_t bytes = static_cast<std::size_t>(layout.images) * x->image_bytes();
  std::vector<float> numbers(bytes / sizeof(float), 1.0f);
  x->write_bytes(numbers.data(), bytes, layout, 0);
  Recording& recording = *buffer->recording();
  recording.begin(operation_);
  recording.input(ImageBatch{x});
  recording.result(ImageBatch{y});
  add_dropout_numbers(recording, parameters_, step);
  recording.end();
  buffer->commit();
  buffer->wait_until_completed();
  y->read_bytes(numbers.data(), bytes, layout, 0);
  std::vector<bool> kept;
  for (float number : numbers) kept.push_back(number != 0);
  return kept;
}

}  // namespace traingraph::mps
