#include "graph/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>

#include <traingraph/errors.h>

#include "graph/safetensors_header.h"
#include "runtime/json_text.h"

namespace traingraph {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little endian");

// A header beyond this is refused, as other readers do.
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::size_t kLengthBytes = 8;

struct TypeName {
  const char* text;
  int bytes;
  DataType type;  // kInvalid: no tensor here has it
};
constexpr std::array<TypeName, 13> kTypes = {{{"F64", 8, DataType::kFloat64},
                                              {"F32", 4, DataType::kFloat32},
                                              {"F16", 2, DataType::kFloat16},
                                              {"BF16", 2, DataType::kBFloat16},
                                              {"I64", 8, DataType::kInt64},
                                              {"I32", 4, DataType::kInt32},
                                              {"I8", 1, DataType::kInt8},
                                              {"U8", 1, DataType::kUInt8},
                                              {"BOOL", 1, DataType::kBoolean},
                                              {"I16", 2, DataType::kInvalid},
                                              {"U16", 2, DataType::kInvalid},
                                              {"U32", 4, DataType::kInvalid},
                                              {"U64", 8, DataType::kInvalid}}};

// Elements times their size; -1 where that is no number of bytes.
std::int64_t byte_count(const Shape& shape, int bytes) {
  std::int64_t product = bytes;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(product, extent, &product)) return -1;
  }
  return product;
}

// The tensors lie one after another and fill the rest of the file.
void check_places(const std::vector<HeaderEntry>& entries, std::int64_t size,
                  const std::string& subject) {
  std::vector<const HeaderEntry*> order;
  for (const HeaderEntry& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const HeaderEntry* a, const HeaderEntry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::int64_t end = 0;
  for (const HeaderEntry* entry : order) {
    if (entry->begin != end || entry->end < entry->begin) {
      throw InvalidArgument(subject + "expected '" + entry->name + "' from byte " +
                            std::to_string(end) + " of the data but got " +
                            std::to_string(entry->begin) + " to " + std::to_string(entry->end));
    }
    end = entry->end;
  }
  if (end == size) return;
  throw InvalidArgument(subject + "expected " + std::to_string(end) +
                        " bytes of data after the header but got " + std::to_string(size) +
                        (end > size ? ": it is truncated" : ""));
}

DataType check_entry(const HeaderEntry& entry, const std::string& subject) {
  const auto* const type = std::ranges::find(kTypes, entry.type, &TypeName::text);
  if (type == kTypes.end()) return DataType::kInvalid;
  const std::int64_t expected = byte_count(entry.shape, type->bytes);
  if (expected == entry.end - entry.begin) return type->type;
  throw InvalidArgument(subject + "expected the bytes of " + entry.type + " " +
                        to_string(entry.shape) + " for '" + entry.name + "' but got " +
                        std::to_string(entry.end - entry.begin));
}

}  // namespace

Safetensors parse_safetensors(const FileBytes& file, const std::string& path) {
  const std::string subject = "[load] '" + path + "' is no safetensors file: ";
  std::uint64_t length = 0;
  if (file.size < kLengthBytes) {
    throw InvalidArgument(subject + "expected at least 8 bytes but got " +
                          std::to_string(file.size));
  }
  std::memcpy(&length, file.bytes.get(), kLengthBytes);
  const std::size_t rest = file.size - kLengthBytes;
  if (length > kMaxHeaderBytes || length > rest) {
    throw InvalidArgument(subject + "its header has " + std::to_string(length) +
                          " bytes, which is more than " +
                          (length > rest ? "the file has" : "100 MB"));
  }
  const auto header_bytes = static_cast<std::size_t>(length);
  const auto* const first = reinterpret_cast<const char*>(file.bytes.get()) + kLengthBytes;
  SafetensorsHeader header = parse_header({first, header_bytes}, subject);
  check_places(header.tensors, static_cast<std::int64_t>(rest - header_bytes), subject);

  Safetensors result;
  result.metadata = std::move(header.metadata);
  for (HeaderEntry& entry : header.tensors) {
    TensorData data;
    data.data_type = check_entry(entry, subject);
    // Only read: the type has no other form for bytes that are not written.
    data.bytes = const_cast<char*>(first) + header_bytes + entry.begin;
    data.writable = false;
    data.length = static_cast<std::size_t>(entry.end - entry.begin);
    data.shape = std::move(entry.shape);
    data.owner = std::shared_ptr<const void>(file.bytes, file.bytes.get());
    result.tensors.push_back({std::move(entry.name), std::move(entry.type), std::move(data)});
  }
  return result;
}

void write_safetensors(const std::string& path, const NamedData& tensors,
                       const std::map<std::string, std::string>& metadata) {
  SafetensorsHeader header;
  header.metadata = metadata;
  // Wide elements first, so that every tensor is aligned where the data is.
  std::vector<const NamedData::value_type*> order;
  for (const auto& tensor : tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return element_bytes(a->second.data_type) > element_bytes(b->second.data_type);
  });
  std::int64_t end = 0;
  std::vector<std::span<const std::byte>> pieces(1);
  for (const auto* tensor : order) {
    const auto& [name, data] = *tensor;
    if (!is_utf8(name)) {
      throw InvalidArgument("[save] expected a name in UTF-8 but got '" + name + "'");
    }
    const auto* const type = std::ranges::find(kTypes, data.data_type, &TypeName::type);
    const std::int64_t begin = end;
    end += byte_count(data.shape, type->bytes);
    header.tensors.push_back({name, type->text, data.shape, begin, end});
    pieces.emplace_back(static_cast<const std::byte*>(data.bytes),
                        static_cast<std::size_t>(end - begin));
  }
  std::string text = to_json(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::string front(kLengthBytes, '\0');
  std::memcpy(front.data(), &length, kLengthBytes);
  front += text;
  pieces.front() = std::as_bytes(std::span(front));
  replace_file(path, pieces);
}

}  // namespace traingraph
