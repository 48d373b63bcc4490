// Writes data sources to archives and reads them back: arrays are base64 text, and a source that is
// read holds its own arrays.
#include <traingraph/mps/stored_sources.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include <traingraph/errors.h>

#include "mps/coding/coded_fields.h"
#include "mps/kernels/convolution/convolution_weights.h"
#include "mps/kernels/loaded_source.h"

namespace traingraph::mps {
namespace {

// Channels of arrays that are not there are numbers of an archive alone; a kernel makes buffers.
constexpr std::int64_t kMostChannels = 1 << 24;

// --- bytes as text -------------------------------------------------------------------------------

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Base64: RFC 4648, section 4.
std::string packed(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t k = 0; k < bytes.size(); k += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - k);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      group = group << 8 | (i < count ? std::to_integer<std::uint32_t>(bytes[k + i]) : 0U);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      text += i <= count ? kDigits[group >> (18 - 6 * i) & 63] : '=';
    }
  }
  return text;
}

// Raises InvalidArgument.
std::vector<std::byte> unpacked(std::string_view text) {
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  if (text.size() % 4 != 0) throw InvalidArgument("expected base64 but got another length");
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t k = 0; k < text.size(); k += 4) {
    const std::size_t count = k + 4 == text.size() ? 3 - padding : 3;
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t digit = i <= count ? kDigits.find(text[k + i]) : 0;
      if (digit == kDigits.npos) throw InvalidArgument("expected base64 but got another character");
      group = group << 6 | static_cast<std::uint32_t>(digit);
    }
    for (std::size_t i = 0; i < count; ++i) {
      bytes.push_back(static_cast<std::byte>(group >> (16 - 8 * i) & 255));
    }
  }
  return bytes;
}

constexpr const char* kArchiver = "NSKeyedArchiver";
constexpr const char* kChannels = "number_of_feature_channels";
constexpr const char* kArrays = "arrays";
constexpr const char* kEpsilon = "epsilon";
constexpr const char* kGroups = "number_of_groups";

CodedValue packed(const SourceNumbers& numbers, const Shape& shape, DataType type,
                  const char* what) {
  check_numbers(numbers, shape, type, kArchiver, what);
  return packed(
      std::span(static_cast<const std::byte*>(numbers.data), numbers.count * element_bytes(type)));
}
// Nothing where there is no array.
CodedValue packed_if_there(const SourceNumbers& numbers, std::int64_t channels, DataType type,
                           const char* what) {
  if (numbers.data == nullptr) return nullptr;
  return packed(numbers, {channels}, type, what);
}

std::vector<std::byte> bytes_of(const CodedValue& from, const char* name) {
  const CodedValue& value = from.at(name);
  if (value.is_nothing()) return {};
  std::string text;
  decode_named(value, name, text);
  return unpacked(text);
}

std::vector<float> floats_of(const CodedValue& from, const char* name) {
  const std::vector<std::byte> bytes = bytes_of(from, name);
  if (bytes.size() % sizeof(float) != 0) {
    throw InvalidArgument("of '" + std::string(name) + "': expected float32 but got " +
                          std::to_string(bytes.size()) + " bytes");
  }
  std::vector<float> numbers(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

// --- what sources give ---------------------------------------------------------------------------

// What `read` gives between load() and purge(), and the label.
template <class Source, class Read>
CodedValue loaded(Source& source, Read read) {
  CodedValue::Entries entries;
  while_loaded(source, kArchiver, [&] { entries = read(); });
  const std::string label = source.label();
  entries.push_back({"label", label.empty() ? CodedValue() : CodedValue(label)});
  return entries;
}

std::string label_of(const CodedValue& from) {
  std::string label;
  if (!from.at("label").is_nothing()) decode_named(from.at("label"), "label", label);
  return label;
}

const char* name_of(DataType type) { return type == DataType::kFloat64 ? "float64" : "float32"; }

DataType type_of(const CodedValue& from) {
  std::string name;
  decode_named(from.at("data_type"), "data_type", name);
  for (const DataType type : {DataType::kFloat32, DataType::kFloat64}) {
    if (name == name_of(type)) return type;
  }
  throw InvalidArgument("expected float32 or float64 but got '" + name + "'");
}

// Raises ShapeError unless there are as many elements as the product of `factors`, which are 1 or
// more and may be those of a damaged archive.
void check_elements(const std::vector<std::byte>& bytes, DataType type,
                    const std::vector<std::int64_t>& factors) {
  const std::size_t got = bytes.size() / element_bytes(type);
  std::size_t expected = 1;
  for (const std::int64_t factor : factors) {
    const auto times = static_cast<std::size_t>(factor);
    // Beyond that it is wrong already, and the product may not be a number.
    expected = expected > SIZE_MAX / times ? SIZE_MAX : expected * times;
  }
  if (got == expected && bytes.size() % element_bytes(type) == 0) return;
  throw ShapeError("[MPSCNNConvolution] expected " + std::to_string(expected) +
                   " elements but got " + std::to_string(got));
}

// An array per channel: what archives call it, what reads it, and where the one that is read goes.
template <class Source>
struct ChannelArray {
  const char* name;
  SourceNumbers (Source::*read)() const;
  std::vector<float> ChannelArrays::* kept;
};

template <class S>
std::vector<ChannelArray<S>> arrays_of() {
  std::vector<ChannelArray<S>> arrays = {{"gamma", &S::gamma, &ChannelArrays::gamma},
                                         {"beta", &S::beta, &ChannelArrays::beta}};
  if constexpr (requires { &S::mean; }) {
    arrays.push_back({"mean", &S::mean, &ChannelArrays::mean});
    arrays.push_back({"variance", &S::variance, &ChannelArrays::variance});
  }
  return arrays;
}

template <class Source>
CodedValue coded_normalization(Source& source) {
  return loaded(source, [&source] {
    const std::int64_t channels = source.number_of_feature_channels();
    CodedValue::Entries arrays;
    for (const ChannelArray<Source>& one : arrays_of<Source>()) {
      arrays.push_back({one.name, packed_if_there((source.*one.read)(), channels,
                                                  DataType::kFloat32, one.name)});
    }
    CodedValue::Entries entries = {
        {kChannels, channels}, {kArrays, std::move(arrays)}, {kEpsilon, source.epsilon()}};
    if constexpr (requires { source.number_of_groups(); }) {
      entries.push_back({kGroups, source.number_of_groups()});
    }
    return entries;
  });
}

template <class Stored, class Source>
void decode_normalization(const CodedValue& value, std::shared_ptr<Source>& to) {
  ChannelArrays arrays;
  decode_named(value.at(kChannels), kChannels, arrays.channels);
  for (const ChannelArray<Source>& one : arrays_of<Source>()) {
    arrays.*one.kept = floats_of(value.at(kArrays), one.name);
  }
  decode_named(value.at(kEpsilon), kEpsilon, arrays.epsilon);
  if constexpr (requires { to->number_of_groups(); }) {
    decode_named(value.at(kGroups), kGroups, arrays.groups);
  }
  arrays.label = label_of(value);
  to = std::make_shared<Stored>(std::move(arrays));
}

}  // namespace

ConvolutionOfArrays::ConvolutionOfArrays(const CNNConvolutionDescriptor& descriptor, DataType type,
                                         std::vector<std::byte> weights,
                                         std::vector<std::byte> biases, std::string label)
    : descriptor_(descriptor),
      type_(type),
      weights_(std::move(weights)),
      biases_(std::move(biases)),
      label_(std::move(label)) {
  const CNNConvolutionDescriptor& d = descriptor_;
  mps::check(d, "MPSCNNConvolution");
  check_elements(weights_, type,
                 {d.output_feature_channels, d.kernel_height, d.kernel_width,
                  d.input_feature_channels / d.all_groups()});
  if (!biases_.empty()) check_elements(biases_, type, {d.output_feature_channels});
}

SourceNumbers ConvolutionOfArrays::numbers(const std::vector<std::byte>& bytes) const {
  if (bytes.empty()) return {};
  return {bytes.data(), bytes.size() / element_bytes(type_), type_};
}

void ChannelArrays::check() const {
  if (channels < 1 || channels > kMostChannels) {
    throw ShapeError("[normalization] expected from 1 to " + std::to_string(kMostChannels) +
                     " channels but got " + std::to_string(channels));
  }
  for (const std::vector<float>* array : {&gamma, &beta, &mean, &variance}) {
    if (array->empty() || static_cast<std::int64_t>(array->size()) == channels) continue;
    throw ShapeError("[normalization] expected a number for each of " + std::to_string(channels) +
                     " channels but got " + std::to_string(array->size()));
  }
}

CodedValue coded(CNNConvolutionDataSource& source) {
  return loaded(source, [&source]() -> CodedValue::Entries {
    const CNNConvolutionDescriptor d = source.descriptor();
    mps::check(d, "MPSCNNConvolution");
    const DataType type = source.data_type();
    check_weights_type(type, kArchiver);
    return {{"descriptor", coded_by_kind(d)},
            {"descriptor_class", kind_of(d)},
            {"data_type", name_of(type)},
            {"weights", packed(source.weights(), weights_in_order(d), type, "weights")},
            {"bias_terms",
             packed_if_there(source.bias_terms(), d.output_feature_channels, type, "bias terms")}};
  });
}

CodedValue coded(CNNBatchNormalizationDataSource& source) { return coded_normalization(source); }
CodedValue coded(CNNInstanceNormalizationDataSource& source) { return coded_normalization(source); }
CodedValue coded(CNNGroupNormalizationDataSource& source) { return coded_normalization(source); }

void decode(const CodedValue& value, CNNConvolutionDataSourcePtr& to) {
  CNNConvolutionDescriptor descriptor;
  std::string kind;
  decode_named(value.at("descriptor_class"), "descriptor_class", kind);
  decode_by_kind(kind, value.at("descriptor"), descriptor);
  to = std::make_shared<ConvolutionOfArrays>(descriptor, type_of(value), bytes_of(value, "weights"),
                                             bytes_of(value, "bias_terms"), label_of(value));
}

void decode(const CodedValue& value, CNNBatchNormalizationDataSourcePtr& to) {
  decode_normalization<BatchNormalizationOfArrays>(value, to);
}
void decode(const CodedValue& value, CNNInstanceNormalizationDataSourcePtr& to) {
  decode_normalization<GroupNormalizationOfArrays>(value, to);
}
void decode(const CodedValue& value, CNNGroupNormalizationDataSourcePtr& to) {
  decode_normalization<GroupNormalizationOfArrays>(value, to);
}

}  // namespace traingraph::mps
