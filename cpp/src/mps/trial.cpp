#include "mps/trial.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <string_view>

#include <traingraph/errors.h>

#include "mps/emission.h"
#include "mps/recorded_run.h"
#include "runtime/philox.h"
#include "runtime/verbose.h"

namespace traingraph::mps {
namespace {

// Numbers beyond this are no parameters of a formula, and neither are the sizes of weights.
constexpr double kLargestParameter = 1e3;
constexpr std::string_view kSizes = "descriptor.";
constexpr int kRounds = 3;

// Of magnitudes on either side of what the formula's parameters tell apart; positive in the first
// round, of both signs in the second. In the third all are 0, for which a formula may be NaN.
std::vector<float> numbers(std::size_t count, std::uint64_t seed, double largest, int round) {
  std::vector<float> made(count);
  if (round == 2) return made;
  for (std::size_t k = 0; k < count; ++k) {
    const std::uint32_t word = philox::word_of(seed, static_cast<std::uint64_t>(round), k);
    const double exponent = -7 * static_cast<double>(word >> 8) / (1 << 24);
    const double sign = round > 0 && (word & 1) != 0 ? -1 : 1;
    made[k] = static_cast<float>(sign * largest * std::exp2(exponent));
  }
  return made;
}

// What all storages hold after a run.
std::vector<float> results(const Backend& backend, NamedKernels kernels, const Excerpt& encoding,
                           const std::vector<StoragePtr>& like, double largest, int round) {
  const auto device = std::make_shared<DeviceState>(backend, 0);
  std::vector<StoragePtr> storages;
  std::vector<const StoragePtr*> named;
  for (const StoragePtr& other : like) {
    storages.push_back(make_storage(device, other->data_type, other->shape, other->layout));
    storages.back()->divisible = other->divisible;
    const std::vector<float> values =
        numbers(other->bytes() / sizeof(float), storages.size(), largest, round);
    write_storage(*storages.back(), 0, values.data(), other->bytes());
  }
  for (const StoragePtr& storage : storages) named.push_back(&storage);
  Recording recording;
  recording.append(encoding, named);
  const auto compiled = Emission(recording, backend, kernels).compile();
  if (const auto end = run(*device, *compiled, storages, {})) end->take();
  std::vector<float> found;
  for (const StoragePtr& storage : storages) {
    const std::size_t at = found.size();
    found.resize(at + storage->bytes() / sizeof(float));
    read_storage(*storage, 0, found.data() + at, storage->bytes());
  }
  return found;
}

// Where the ops give numbers at all.
bool agree(const std::vector<float>& found, const std::vector<float>& expected) {
  float largest = 0;
  for (float value : expected) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  for (std::size_t k = 0; k < expected.size(); ++k) {
    if (!std::isfinite(expected[k])) continue;
    const float bound = 1e-3f * std::abs(expected[k]) + 1e-5f * largest;
    if (!(std::abs(found[k] - expected[k]) <= bound)) return false;
  }
  return true;
}

bool tried(const Backend& backend, const ir::NamedKernelAttributes& application,
           const Excerpt& encoding, const std::vector<StoragePtr>& like) {
  double largest = 1;
  for (const auto& [name, number] : application.numbers) {
    if (std::abs(number) > kLargestParameter || name.starts_with(kSizes)) continue;
    largest = std::max(largest, std::abs(number));
  }
  try {
    for (int round = 0; round < kRounds; ++round) {
      const auto of = [&](NamedKernels kernels) {
        return results(backend, kernels, encoding, like, 2 * largest, round);
      };
      if (!agree(of(NamedKernels::always), of(NamedKernels::never))) return false;
    }
  } catch (const DeviceError&) {
    return false;
  }
  return true;
}

struct KernelAnswer {
  const Backend* backend;
  ir::NamedKernelAttributes application;
  std::vector<std::uint64_t> words;  // of the encoding, but for the operation's number
  std::vector<ir::Type> types;
  bool right;
};

}  // namespace

bool comes_out_right(const Backend& backend, const ir::NamedKernelAttributes& application,
                     const Excerpt& encoding, const std::vector<StoragePtr>& like) {
  static std::mutex mutex;
  static std::vector<KernelAnswer> answers;
  KernelAnswer answer{&backend, application, encoding.words, {}, true};
  answer.words[0] = 0;
  for (const StoragePtr& storage : like) {
    answer.types.push_back(storage->type());
    if (storage->data_type != DataType::kFloat32) return false;
  }
  const std::lock_guard lock(mutex);
  const auto known = std::ranges::find_if(answers, [&](const KernelAnswer& other) {
    return other.backend == answer.backend && other.application == answer.application &&
           other.words == answer.words && other.types == answer.types;
  });
  if (known != answers.end()) return known->right;
  answer.right = tried(backend, application, encoding, like);
  if (!answer.right && verbose_dispatch()) {
    std::fprintf(stderr, "traingraph: dispatch: %s refuses %s: not what its ops compute\n",
                 backend.name().c_str(), application.name.c_str());
  }
  answers.push_back(std::move(answer));
  return answers.back().right;
}

}  // namespace traingraph::mps
