#include "mps/dropout_trial.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <optional>

#include <traingraph/errors.h>

#include "mps/emission.h"
#include "mps/recorded_run.h"
#include "runtime/verbose.h"

namespace traingraph::mps {
namespace {

constexpr std::size_t kSteps = 4;
// With fewer decisions expected to differ, masks may be alike by chance.
constexpr double kFewestToDiffer = 30;

using Mask = std::vector<bool>;  // by element (N, C, H, W)

class Trial {
 public:
  Trial(const Backend& backend, const DropoutParameters& p, const Shape& images)
      : backend_(backend),
        p_(p),
        shape_(images),
        device_(separate_device(backend)),
        x_(numbers(1)),
        other_x_(numbers(-3)),
        result_(numbers(1)) {}

  bool passes() {
    CNNDropout first(device_, p_), second(device_, p_);
    CNNDropoutGradient gradient(device_, p_);
    std::vector<StateBatch> states(kSteps);
    std::vector<Mask> masks;
    for (StateBatch& own : states) {
      const std::optional<Mask> mask = forward(first, x_, own);
      if (!mask || !repeats(*mask)) return false;
      masks.push_back(*mask);
    }
    // Over other numbers a fresh kernel, and the gradients.
    for (std::size_t k = 0; k < kSteps; ++k) {
      StateBatch own;
      if (masks[k] != forward(second, other_x_, own)) return false;
      if (masks[k] != backward(gradient, x_, other_x_, states[k], result_)) return false;
    }
    const std::optional<Mask> last =
        backward(gradient, {other_x_.back()}, {x_.back()}, {states[1].back()}, {result_.back()});
    return last && std::equal(last->rbegin(), last->rend(), masks[1].rbegin()) &&
           are_plausible(masks);
  }

 private:
  // An order of work of its own, with no programs but those of the trial.
  static Device separate_device(const Backend& backend) {
    const auto state = std::make_shared<DeviceState>(backend, 0);
    return Buffer(make_storage(state, DataType::kUInt8, {1})).device();
  }

  // Images without zeros.
  ImageBatch numbers(float first) const {
    const ImageBatch batch = Image::create(device_, {ChannelFormat::kFloat32, shape_[3], shape_[2],
                                                     shape_[1], shape_[0]})
                                 ->batch_representation();
    std::vector<float> values(batch[0]->image_bytes() / sizeof(float));
    for (const ImagePtr& image : batch) {
      for (std::size_t k = 0; k < values.size(); ++k) {
        values[k] = first * (1 + static_cast<float>(k % 7));
      }
      image->write_bytes(values.data(), image->image_bytes(), DataLayout::kChannelsHeightWidth, 0);
    }
    return batch;
  }

  // What a kernel leaves of x, or of dy, in a run of its own.
  std::optional<Mask> forward(CNNDropout& kernel, const ImageBatch& x, StateBatch& states) {
    states = kernel.result_state_batch(x, nullptr);
    run([&](CommandBuffer& buffer) { kernel.encode_batch(buffer, x, states, result_); });
    return mask_of(result_, x);
  }
  std::optional<Mask> backward(CNNDropoutGradient& kernel, const ImageBatch& dy,
                               const ImageBatch& x, const StateBatch& states,
                               const ImageBatch& to) {
    run([&](CommandBuffer& buffer) { kernel.encode_batch(buffer, dy, x, states, to); });
    return mask_of(to, dy);
  }

  template <class F>
  void run(const F& encode) {
    const CommandBufferPtr buffer = device_.make_command_queue()->make_command_buffer();
    encode(*buffer);
    const Recording& recording = *buffer->recording();
    const auto compiled = Emission(recording, backend_, NamedKernels::always).compile();
    const auto end =
        mps::run(*device_.state(), *compiled, recording.storages(), recording.numbers());
    if (end != nullptr) end->take();
  }

  static std::vector<float> read(const ImageBatch& batch) {
    std::vector<float> all;
    for (const ImagePtr& image : batch) {
      const std::size_t at = all.size();
      all.resize(at + image->image_bytes() / sizeof(float));
      image->read_bytes(all.data() + at, image->image_bytes(), DataLayout::kChannelsHeightWidth, 0);
    }
    return all;
  }

  // Where y is x / keep probability and not 0; nothing where it is neither.
  std::optional<Mask> mask_of(const ImageBatch& y, const ImageBatch& x) const {
    const std::vector<float> found = read(y), source = read(x);
    Mask mask(found.size());
    for (std::size_t k = 0; k < found.size(); ++k) {
      const float kept = source[k] / p_.keep_probability;
      mask[k] = found[k] != 0;
      if (mask[k] && !(std::abs(found[k] - kept) <= 1e-4f * std::abs(kept))) return std::nullopt;
    }
    return mask;
  }

  // Calls f(element, the first one that has the same decision).
  template <class F>
  void for_elements(const F& f) const {
    std::size_t k = 0;
    for (std::int64_t n = 0; n < shape_[0]; ++n) {
      for (std::int64_t c = 0; c < shape_[1]; ++c) {
        for (std::int64_t y = 0; y < shape_[2]; ++y) {
          for (std::int64_t x = 0; x < shape_[3]; ++x, ++k) {
            const std::int64_t channel = n * shape_[1] + c * p_.mask_stride_channels;
            const std::int64_t row = channel * shape_[2] + y * p_.mask_stride_y;
            f(k, static_cast<std::size_t>(row * shape_[3] + x * p_.mask_stride_x));
          }
        }
      }
    }
  }

  bool repeats(const Mask& mask) const {
    bool all = true;
    for_elements([&](std::size_t k, std::size_t first) { all = all && mask[k] == mask[first]; });
    return all;
  }

  // As many are kept as the probability says, and not the same ones at each step.
  bool are_plausible(const std::vector<Mask>& masks) const {
    double decisions = 0, kept = 0, differing = 0;
    for_elements([&](std::size_t k, std::size_t first) {
      if (k != first) return;
      for (const Mask& mask : masks) {
        decisions += 1;
        kept += mask[k] ? 1 : 0;
        differing += mask[k] != masks[0][k] ? 1 : 0;
      }
    });
    const auto p = static_cast<double>(p_.keep_probability);
    const double variance = decisions * p * (1 - p);
    const double to_differ = 2 * variance * (kSteps - 1) / kSteps;
    return std::abs(kept - decisions * p) <= 6 * std::sqrt(variance) + 1 &&
           (differing > 0 || to_differ < kFewestToDiffer);
  }

  const Backend& backend_;
  const DropoutParameters p_;
  const Shape shape_;
  const Device device_;
  // A run that is compared has another source than the one before: none passes by what was there.
  const ImageBatch x_, other_x_, result_;
};

struct DropoutAnswer {
  const Backend* backend;
  DropoutParameters parameters;
  Shape images;
  bool right;
};

}  // namespace

bool keeps_its_masks(const Backend& backend, DropoutParameters parameters, const Shape& images) {
  // One answer for all seeds: a program may well make kernels with ever new ones. This one could be
  // taken for none, and later steps have words of all bits.
  parameters.seed = 0;
  static std::mutex mutex;
  static std::vector<DropoutAnswer> answers;
  const std::lock_guard lock(mutex);
  const auto known = std::ranges::find_if(answers, [&](const DropoutAnswer& other) {
    return other.backend == &backend && other.parameters == parameters && other.images == images;
  });
  if (known != answers.end()) return known->right;
  bool right = false;
  try {
    right = Trial(backend, parameters, images).passes();
  } catch (const DeviceError&) {  // which is an answer too
  }
  if (!right && verbose_dispatch()) {
    std::fprintf(
        stderr,
        "traingraph: dispatch: %s refuses MPSCNNDropout and its gradient: not masks that a "
        "seed repeats\n",
        backend.name().c_str());
  }
  answers.push_back({&backend, parameters, images, right});
  return right;
}

}  // namespace traingraph::mps
