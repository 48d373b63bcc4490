// Archive form of each field type, coded() and decode(); those of descriptors are declared in
// <traingraph/mps/coding.h>.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include <traingraph/errors.h>
#include <traingraph/mps/arithmetic.h>
#include <traingraph/mps/coding.h>
#include <traingraph/mps/dropout.h>

namespace traingraph::mps {

// Raises InvalidArgument.
[[noreturn]] void refuse_value(const std::string& expected, const CodedValue& got);

template <class T>
  requires std::is_arithmetic_v<T>
CodedValue coded(T value) {
  return value;
}
inline CodedValue coded(const std::string& text) { return text; }
CodedValue coded(const PaddingPolicy& policy);
CodedValue coded(const Offset& offset);
CodedValue coded(const Coordinate& coordinate);
CodedValue coded(const MaskStride& stride);
CodedValue coded(const Extent& extent);
CodedValue coded(const Region& region);
CodedValue coded(const std::vector<float>& numbers);
CodedValue coded(const std::shared_ptr<const InferenceNormalization>& normalization);

void decode(const CodedValue& value, bool& to);
void decode(const CodedValue& value, std::int64_t& to);
void decode(const CodedValue& value, float& to);
void decode(const CodedValue& value, double& to);
void decode(const CodedValue& value, std::string& to);
void decode(const CodedValue& value, PaddingPolicy& to);
void decode(const CodedValue& value, Offset& to);
void decode(const CodedValue& value, Coordinate& to);
void decode(const CodedValue& value, MaskStride& to);
void decode(const CodedValue& value, Extent& to);
void decode(const CodedValue& value, Region& to);
void decode(const CodedValue& value, std::vector<float>& to);
void decode(const CodedValue& value, std::shared_ptr<const InferenceNormalization>& to);

// Raises InvalidArgument.
[[noreturn]] void refuse_archive(const std::string& kind, const Error& error);
// What `decode` gives; what it raises for damaged archives says that it is no such object's.
template <class Decode>
auto whole(const std::string& kind, Decode decode) {
  try {
    return decode();
  } catch (const InvalidArgument& error) {
    refuse_archive(kind, error);
  } catch (const Unsupported& error) {
    refuse_archive(kind, error);
  }
}

// The name of the class that has the descriptor's fields, and these fields. Decoding raises
// DataTypeError for a name that is no such descriptor's.
const char* kind_of(const CNNConvolutionDescriptor& descriptor);
CodedValue coded_by_kind(const CNNConvolutionDescriptor& descriptor);
void decode_by_kind(const std::string& kind, const CodedValue& value, CNNConvolutionDescriptor& to);

// Enumerations are their raw values, from `first` to `last`.
struct RawValues {
  std::int64_t first = 0;
  std::int64_t last = 0;
};
template <class E>
constexpr RawValues kRawValues = {};
template <>
inline constexpr RawValues kRawValues<NeuronType> = {0, 15};
template <>
inline constexpr RawValues kRawValues<CNNLossType> = {0, 9};
template <>
inline constexpr RawValues kRawValues<CNNReductionType> = {0, 3};
template <>
inline constexpr RawValues kRawValues<RegularizationType> = {0, 2};
template <>
inline constexpr RawValues kRawValues<GradientClippingType> = {0, 2};
template <>
inline constexpr RawValues kRawValues<EdgeMode> = {0, 4};
template <>
inline constexpr RawValues kRawValues<NNComparisonType> = {0, 5};
template <>
inline constexpr RawValues kRawValues<CNNConvolutionGradientOption> = {1, 3};

template <class E>
  requires std::is_enum_v<E>
CodedValue coded(E value) {
  return static_cast<std::int64_t>(value);
}
template <class E>
  requires std::is_enum_v<E>
void decode(const CodedValue& value, E& to) {
  static_assert(kRawValues<E>.last > 0, "an enumeration without its raw values");
  std::int64_t number = 0;
  decode(value, number);
  if (number < kRawValues<E>.first || number > kRawValues<E>.last) {
    refuse_value("a number from " + std::to_string(kRawValues<E>.first) + " to " +
                     std::to_string(kRawValues<E>.last),
                 value);
  }
  to = static_cast<E>(number);
}

// With the name in the error.
template <class T>
void decode_named(const CodedValue& value, const std::string& name, T& to) {
  try {
    decode(value, to);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument("of '" + name + "': " + error.what());
  }
}

}  // namespace traingraph::mps
