// Reads and writes safetensors files; every type, shape and offset of a header is checked before
// memory is allocated.
#include "graph/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>

#include <traingraph/errors.h>

#include "graph/checkpoint/safetensors_header.h"
#include "ir/extents.h"
#include "runtime/files/json_text.h"

namespace traingraph {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little endian");

// A header beyond this is refused, as other readers do.
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::size_t kLengthBytes = 8;

struct TypeName {
  const char* text;
  int bits;
  DataType type = DataType::kInvalid;  // no tensor here has it
};
constexpr std::array<TypeName, 22> kTypes = {{
    {"F64", 64, DataType::kFloat64},
    {"F32", 32, DataType::kFloat32},
    {"F16", 16, DataType::kFloat16},
    {"BF16", 16, DataType::kBFloat16},
    {"I64", 64, DataType::kInt64},
    {"I32", 32, DataType::kInt32},
    {"I8", 8, DataType::kInt8},
    {"U8", 8, DataType::kUInt8},
    {"BOOL", 8, DataType::kBoolean},
    {"I16", 16},
    {"U16", 16},
    {"U32", 32},
    {"U64", 64},
    {"C64", 64},
    {"F8_E4M3", 8},
    {"F8_E5M2", 8},
    {"F8_E8M0", 8},
    {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8},
    {"F6_E2M3", 6},
    {"F6_E3M2", 6},
    {"F4", 4},
}};

// Elements times their size; -1 where that is no number of bytes, also where there are none of too
// many.
std::int64_t bytes_of(const Shape& shape, int bits) {
  std::int64_t all = bits;
  for (const std::int64_t extent : shape) {
    all = ir::product(all, extent);
    if (all == ir::kBeyond) return -1;
  }
  return all % 8 == 0 ? all / 8 : -1;
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
  const std::int64_t expected = bytes_of(entry.shape, type->bits);
  if (expected == entry.end - entry.begin) return type->type;
  throw InvalidArgument(subject + "expected the bytes of " + entry.type + " " +
                        to_string(entry.shape) + " for '" + entry.name + "' but got " +
                        std::to_string(entry.end - entry.begin));
}

}  // namespace

bool is_safetensors_type(const std::string& name) {
  return std::ranges::find(kTypes, name, &TypeName::text) != kTypes.end();
}

// The header says how long everything is, so it is read before memory is asked for.
SafetensorsFile::SafetensorsFile(const std::string& path)
    : subject_("[load] '" + path + "' is no safetensors file: "), file_(path) {
  std::uint64_t length = 0;
  if (file_.size() < kLengthBytes) {
    throw InvalidArgument(subject_ + "expected at least 8 bytes but got " +
                          std::to_string(file_.size()));
  }
  const auto read_at = [&](std::uint64_t from, std::span<std::byte> to) {
    if (file_.read(from, to)) return;
    throw InvalidArgument(subject_ + "it became shorter while it was read");
  };
  read_at(0, std::as_writable_bytes(std::span(&length, 1)));
  const std::uint64_t rest = file_.size() - kLengthBytes;
  if (length > kMaxHeaderBytes || length > rest) {
    throw InvalidArgument(subject_ + "its header has " + std::to_string(length) +
                          " bytes, which is more than " +
                          (length > rest ? "the file has" : "100 MB"));
  }
  std::string text(length, '\0');
  read_at(kLengthBytes, std::as_writable_bytes(std::span(text)));
  SafetensorsHeader header = parse_header(text, subject_);
  metadata_ = std::move(header.metadata);
  check_places(header.tensors, static_cast<std::int64_t>(rest - length), subject_);
  for (HeaderEntry& entry : header.tensors) {
    TensorData data;
    data.data_type = check_entry(entry, subject_);
    data.length = static_cast<std::size_t>(entry.end - entry.begin);
    data.shape = std::move(entry.shape);
    const std::uint64_t begin = kLengthBytes + length + static_cast<std::uint64_t>(entry.begin);
    tensors_.push_back({std::move(entry.name), std::move(entry.type), std::move(data), begin});
  }
}

void SafetensorsFile::read(StoredTensor& tensor) const {
  TensorData& data = tensor.data;
  data = TensorData::copy_of(nullptr, 0, data.data_type, std::move(data.shape));
  if (file_.read(tensor.begin, {static_cast<std::byte*>(data.bytes), data.length})) return;
  throw InvalidArgument(subject_ + "it became shorter while '" + tensor.name + "' was read");
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
    end += bytes_of(data.shape, type->bits);
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
