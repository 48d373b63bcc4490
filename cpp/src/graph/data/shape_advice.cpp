// Guesses what an array of the wrong shape was meant to be.
#include "graph/data/shape_advice.h"

#include <algorithm>

namespace traingraph {
namespace {

constexpr std::size_t kImageRank = 4;

// (C, H, W) of (H, W, C).
Shape channels_first(const Shape& sample) { return {sample[2], sample[0], sample[1]}; }

Shape sample_of(const Shape& shape) { return {shape.begin() + 1, shape.end()}; }

}  // namespace

std::string advice_on_rows(std::int64_t rows) {
  return rows == 1 ? "; repeat the row for each of the others" : "";
}

std::string advice_on_images(const Shape& given, const Shape& expected) {
  if (given.size() != kImageRank || expected.size() != kImageRank) return "";
  const Shape got = sample_of(given), sample = sample_of(expected);
  if (channels_first(got) == sample) {
    return "; images are (N, C, H, W), channels first: pass what transpose(0, 3, 1, 2) gives";
  }
  const bool declares_last = sample[2] < std::min(sample[0], sample[1]);
  if (declares_last && channels_first(sample) == got) {
    return "; images are (N, C, H, W), channels first: declare the input as " + to_string(got);
  }
  return "";
}

std::string advice_on_labels(const Shape& given, const Shape& expected, DataType type) {
  if (is_floating_point(type)) return "";
  if (given.size() == expected.size() + 1) {
    return "; one-hot labels are no classes: pass what argmax(axis=1) gives, or floats to a model "
           "with labels='one_hot'";
  }
  // (N, steps) where the loss reads (N, steps, classes).
  if (given.size() != 2 || expected.size() != 2) return "";
  return "; classes are on axis 1 of what the loss reads, where nn.permute((2, 1)) brings them "
         "from behind the steps";
}

}  // namespace traingraph
