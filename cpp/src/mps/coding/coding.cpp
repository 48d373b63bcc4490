// KeyedArchiver, KeyedUnarchiver and lookup in a CodedValue; an archive is checked for its class
// name and its values by name when it is opened.
#include <traingraph/mps/coding.h>

#include <algorithm>

#include <traingraph/errors.h>

#include "mps/coding/archive_text.h"
#include "mps/coding/coded_fields.h"

namespace traingraph::mps {
namespace {

struct Archive {
  std::string kind;
  CodedValue values;
};

Archive opened(std::string_view data) {
  try {
    const CodedValue content = from_json(data);
    Archive archive;
    decode_named(content.at("class"), "class", archive.kind);
    archive.values = content.at("values");
    if (archive.values.as<CodedValue::Entries>() == nullptr) {
      refuse_value("values by name", archive.values);
    }
    return archive;
  } catch (const InvalidArgument& error) {
    throw InvalidArgument("[MPSKeyedUnarchiver] expected an archive but got " +
                          std::to_string(data.size()) + " other bytes: " + error.what());
  }
}

}  // namespace

const CodedValue* CodedValue::find(std::string_view name) const {
  const auto* const entries = as<Entries>();
  if (entries == nullptr) return nullptr;
  const auto found = std::find_if(entries->rbegin(), entries->rend(),
                                  [&](const Entry& entry) { return entry.name == name; });
  return found == entries->rend() ? nullptr : &found->value;
}

const CodedValue& CodedValue::at(std::string_view name) const {
  const CodedValue* const found = find(name);
  if (found != nullptr) return *found;
  throw InvalidArgument("expected a value for '" + std::string(name) + "' but got " + what() +
                        " without one");
}

bool CodedValue::operator==(const CodedValue& other) const { return value_ == other.value_; }

const char* CodedValue::what() const {
  constexpr const char* kNames[] = {"nothing", "a truth value", "a whole number", "a number",
                                    "a text",  "a list",        "values by name"};
  return kNames[value_.index()];
}

Coder::~Coder() = default;
void Coder::encode(const CodedValue&, const std::string& key) {
  throw Unsupported("[NSCoder] encoding '" + key + "': this coder reads only");
}
CodedValue Coder::decode(const std::string& key) const {
  throw Unsupported("[NSCoder] decoding '" + key + "': this coder writes only");
}
DeviceProvider::~DeviceProvider() = default;

void KeyedArchiver::encode(const CodedValue& value, const std::string& key) {
  const auto found = std::ranges::find(values_, key, &CodedValue::Entry::name);
  if (found == values_.end()) {
    values_.push_back({key, value});
  } else {
    found->value = value;
  }
}

std::string KeyedArchiver::archive(const std::string& kind) const {
  return to_json(CodedValue::Entries{{"class", kind}, {"values", values_}});
}

std::string KeyedArchiver::archived_data(const Kernel& kernel) {
  KeyedArchiver archiver;
  kernel.encode_with_coder(archiver);
  return archiver.archive(kernel.kind());
}

std::string KeyedArchiver::archived_data(const CNNConvolutionDescriptor& descriptor) {
  KeyedArchiver archiver;
  encode_with_coder(descriptor, archiver);
  return archiver.archive(kind_of(descriptor));
}

KeyedUnarchiver::KeyedUnarchiver(std::string_view data, const Device& device) : device_(device) {
  Archive archive = opened(data);
  kind_ = std::move(archive.kind);
  values_ = std::move(archive.values);
}

CodedValue KeyedUnarchiver::decode(const std::string& key) const {
  try {
    return values_.at(key);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument("[MPSKeyedUnarchiver] " + kind_ + ": " + error.what());
  }
}

KernelPtr KeyedUnarchiver::unarchived_kernel(std::string_view data, const Device& device) {
  const KeyedUnarchiver coder(data, device);
  return kernel_with_coder(coder.kind_, coder);
}

CNNConvolutionDescriptor KeyedUnarchiver::unarchived_convolution_descriptor(std::string_view data) {
  const Archive archive = opened(data);
  CNNConvolutionDescriptor descriptor;
  decode_by_kind(archive.kind, archive.values, descriptor);
  return descriptor;
}

void KeyedUnarchiver::refuse_class(const Kernel& kernel) {
  throw DataTypeError("[MPSKeyedUnarchiver] expected a kernel of another class but got " +
                      kernel.description());
}

}  // namespace traingraph::mps
