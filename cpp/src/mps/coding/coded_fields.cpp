// Encodes and decodes numbers, lists, regions and policies of archives; a value of another type
// raises InvalidArgument.
#include "mps/coding/coded_fields.h"

#include <cmath>
#include <limits>

namespace traingraph::mps {
namespace {

// Raises InvalidArgument unless it is a list of so many.
const CodedValue::List& list_of(const CodedValue& value, std::size_t count) {
  const auto* list = value.as<CodedValue::List>();
  if (list == nullptr || list->size() != count) {
    refuse_value("a list of " + std::to_string(count), value);
  }
  return *list;
}

CodedValue three(std::int64_t x, std::int64_t y, std::int64_t z) {
  return CodedValue::List{x, y, z};
}
void decode_three(const CodedValue& value, std::int64_t& x, std::int64_t& y, std::int64_t& z) {
  const CodedValue::List& list = list_of(value, 3);
  decode(list[0], x);
  decode(list[1], y);
  decode(list[2], z);
}

}  // namespace

void refuse_value(const std::string& expected, const CodedValue& got) {
  throw InvalidArgument("expected " + expected + " but got " + got.what());
}

void refuse_archive(const std::string& kind, const Error& error) {
  throw InvalidArgument("[" + kind +
                        "] expected what an object of this class has encoded but got something "
                        "else: " +
                        error.what());
}

CodedValue coded(const PaddingPolicy& policy) { return std::int64_t{policy.method()}; }

CodedValue coded(const Offset& offset) { return three(offset.x, offset.y, offset.z); }

CodedValue coded(const Coordinate& c) { return three(c.x, c.y, c.channel); }

CodedValue coded(const MaskStride& stride) { return three(stride.x, stride.y, stride.channels); }

CodedValue coded(const Extent& e) { return three(e.width, e.height, e.depth); }

CodedValue coded(const Region& region) {
  return CodedValue::List{coded(region.origin), three(region.width, region.height, region.depth)};
}

CodedValue coded(const std::vector<float>& numbers) {
  return CodedValue::List(numbers.begin(), numbers.end());
}

CodedValue coded(const std::shared_ptr<const InferenceNormalization>& normalization) {
  if (normalization == nullptr) return nullptr;
  const InferenceNormalization& n = *normalization;
  return CodedValue::List{coded(n.mean), coded(n.variance), coded(n.gamma), coded(n.beta),
                          n.epsilon};
}

void decode(const CodedValue& value, bool& to) {
  const bool* const found = value.as<bool>();
  if (found == nullptr) refuse_value("true or false", value);
  to = *found;
}

void decode(const CodedValue& value, std::int64_t& to) {
  const auto* const found = value.as<std::int64_t>();
  if (found == nullptr) refuse_value("a whole number", value);
  to = *found;
}

void decode(const CodedValue& value, double& to) {
  if (const auto* const whole = value.as<std::int64_t>()) {
    to = static_cast<double>(*whole);
    return;
  }
  const auto* const found = value.as<double>();
  if (found == nullptr) refuse_value("a number", value);
  to = *found;
}

void decode(const CodedValue& value, float& to) {
  double wide = 0;
  decode(value, wide);
  constexpr double kMost = std::numeric_limits<float>::max();
  if (std::isfinite(wide) && std::fabs(wide) > kMost) refuse_value("a number of 32 bits", value);
  to = static_cast<float>(wide);
}

void decode(const CodedValue& value, std::string& to) {
  const auto* const found = value.as<std::string>();
  if (found == nullptr) refuse_value("a text", value);
  to = *found;
}

// Bits that are none of the policy's are damage.
void decode(const CodedValue& value, PaddingPolicy& to) {
  constexpr std::int64_t kKnown = PaddingMethod::kAlignMask | PaddingMethod::kRemainderToRight |
                                  PaddingMethod::kRemainderToBottom | PaddingMethod::kSizeMask |
                                  PaddingMethod::kCustom | PaddingMethod::kExcludeEdges;
  std::int64_t bits = 0;
  decode(value, bits);
  if (bits < 0 || (bits | kKnown) != kKnown) {
    throw InvalidArgument("expected a padding policy but got " + std::to_string(bits));
  }
  to = static_cast<int>(bits);
}

void decode(const CodedValue& value, Offset& to) { decode_three(value, to.x, to.y, to.z); }

void decode(const CodedValue& value, Coordinate& to) {
  decode_three(value, to.x, to.y, to.channel);
}

void decode(const CodedValue& value, MaskStride& to) {
  decode_three(value, to.x, to.y, to.channels);
}

void decode(const CodedValue& value, Extent& to) {
  decode_three(value, to.width, to.height, to.depth);
}

void decode(const CodedValue& value, Region& to) {
  const CodedValue::List& list = list_of(value, 2);
  decode(list[0], to.origin);
  decode_three(list[1], to.width, to.height, to.depth);
}

void decode(const CodedValue& value, std::vector<float>& to) {
  const auto* const list = value.as<CodedValue::List>();
  if (list == nullptr) refuse_value("a list of numbers", value);
  to.assign(list->size(), 0);
  for (std::size_t k = 0; k < to.size(); ++k) decode((*list)[k], to[k]);
}

void decode(const CodedValue& value, std::shared_ptr<const InferenceNormalization>& to) {
  to = nullptr;
  if (value.is_nothing()) return;
  const CodedValue::List& list = list_of(value, 5);
  auto made = std::make_shared<InferenceNormalization>();
  decode(list[0], made->mean);
  decode(list[1], made->variance);
  decode(list[2], made->gamma);
  decode(list[3], made->beta);
  decode(list[4], made->epsilon);
  to = std::move(made);
}

}  // namespace traingraph::mps
