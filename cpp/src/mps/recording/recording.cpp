// Recording writes encodings as words: it numbers storages, refuses invalid operands, and copies
// and appends excerpts.
#include "mps/recording/recording.h"

#include <algorithm>
#include <atomic>

#include <traingraph/errors.h>

#include "mps/recording/image_parts.h"

namespace traingraph::mps {
namespace {

std::atomic<std::uint64_t> next_operation{1};

constexpr std::size_t kFewestEntries = 256;

// What a program is compiled for beside the shape: the type, the lifetime, and how many axes.
std::array<std::uint64_t, 3> kind_of(const Storage& storage) {
  return {static_cast<std::uint64_t>(storage.data_type) | static_cast<std::uint64_t>(storage.levels)
                                                              << 16,
          (storage.transient() ? 1u : 0u) | (storage.divisible ? 2u : 0u) |
              (storage.layout.plain() ? 0u : 4u) | (storage.fixed() ? 8u : 0u),
          storage.shape.size()};
}

}  // namespace

Operation::Operation(std::string subject_in)
    : number(next_operation++), subject(std::move(subject_in)) {}

bool ImagePart::is_all_of(const ImageDescriptor& image) const {
  return first == std::array<std::int64_t, 3>{} && place == std::array<std::int64_t, 2>{} &&
         extent == std::array{image.feature_channels, image.height, image.width} &&
         size == std::array{image.height, image.width};
}

void Recording::run_if(const StoragePtr& predicate, std::size_t offset) {
  // Plain bytes are read as numbers of four, whose bits decide.
  if (predicate->data_type == DataType::kUInt8) {
    const auto count = static_cast<std::int64_t>(predicate->bytes() / sizeof(float));
    retype(*predicate, DataType::kFloat32, {count}, {});
  }
  if (predicate->data_type != DataType::kFloat32 || predicate->shape.size() != 1 ||
      predicate->temporary()) {
    throw Unsupported(
        "[MPSPredicate] a buffer that holds something else than plain bytes or a row of float32");
  }
  predicate_ = predicate;
  predicate_offset_ = offset;
}

void Recording::clear(BufferRecord buffer) {
  operations_.clear();
  words_.clear();
  numbers_.clear();
  storages_.clear();
  written_.clear();
  order_.clear();
  std::fill(entries_.begin(), entries_.end(), 0);
  predicate_ = nullptr;
  buffer_ = std::move(buffer);
}

void Recording::keep_bytes() {
  operations_.clear();
  written_.clear();
  std::erase_if(storages_, [](const StoragePtr& storage) { return storage->memory == nullptr; });
}

Recording::Mark Recording::mark() const {
  return {operations_.size(), words_.size(),   numbers_.size(),
          storages_.size(),   written_.size(), order_.size()};
}

void Recording::roll_back(const Mark& to) {
  forget_writing(to.written);
  if (to.storages < storages_.size()) {
    storages_.resize(to.storages);
    make_entries(entries_.size());
  }
  operations_.resize(std::min(to.operations, operations_.size()));
  words_.resize(std::min(to.words, words_.size()));
  numbers_.resize(std::min(to.numbers, numbers_.size()));
  order_.resize(std::min(to.order, order_.size()));
}

namespace {

// Calls f(at) for each word that names a storage.
template <class F>
void for_names(const std::vector<std::uint64_t>& words, const F& f) {
  for (std::size_t at = 0; at < words.size();) {
    const std::uint64_t* head = &words[at];
    const std::uint64_t operands = head[1] + (head[6] == 0 ? 0 : 1);
    at += kHeadWords + head[3] + head[5] * (1 + kPartWords);
    for (std::uint64_t n = 0; n < operands; ++n) {
      for (std::uint64_t ranges = words[at++]; ranges > 0; --ranges, at += 3) f(at);
    }
  }
}

}  // namespace

Excerpt Recording::excerpt(const Mark& from, const Mark& to,
                           std::vector<StoragePtr>& storages) const {
  Excerpt made;
  const auto copy = [](const auto& row, std::size_t first, std::size_t end, auto& into) {
    into.assign(row.begin() + static_cast<std::ptrdiff_t>(first),
                row.begin() + static_cast<std::ptrdiff_t>(end));
  };
  copy(operations_, from.operations, to.operations, made.operations);
  copy(words_, from.words, to.words, made.words);
  for_names(made.words, [&](std::size_t at) {
    const StoragePtr& storage = storages_[made.words[at]];
    const auto known = std::ranges::find(storages, storage);
    made.words[at] = static_cast<std::uint64_t>(known - storages.begin());
    if (known == storages.end()) storages.push_back(storage);
    made.names.push_back(at);
  });
  for (std::size_t k = from.written; k < to.written; ++k) {
    const auto known = std::ranges::find(storages, written_[k], &StoragePtr::get);
    made.written.push_back(static_cast<std::size_t>(known - storages.begin()));
  }
  return made;
}

void Recording::append(const Excerpt& excerpt, const std::vector<const StoragePtr*>& storages) {
  const std::size_t first = words_.size();
  operations_.insert(operations_.end(), excerpt.operations.begin(), excerpt.operations.end());
  words_.insert(words_.end(), excerpt.words.begin(), excerpt.words.end());
  for (std::size_t at : excerpt.names) words_[first + at] = index(*storages[excerpt.words[at]]);
  for (std::size_t at : excerpt.written) note_writing(**storages[at]);
}

void Recording::begin(const OperationPtr& operation) {
  operations_.push_back(operation);
  first_number_ = numbers_.size();
  constants_.clear();
  parts_.clear();
  operands_.clear();
  first_written_ = written_.size();
  first_order_ = order_.size();
  operand_count_ = input_count_ = 0;
}

void Recording::cancel() {
  operations_.pop_back();
  numbers_.resize(first_number_);
  order_.resize(first_order_);
  forget_writing(first_written_);
}

std::size_t Recording::entry_of(const Storage* storage) const {
  const std::size_t last = entries_.size() - 1;
  const auto address = reinterpret_cast<std::uintptr_t>(storage);
  std::size_t at = ((address >> 4) * 0x9e3779b97f4a7c15ull >> 32) & last;
  while (entries_[at] != 0 && storages_[entries_[at] - 1].get() != storage) at = (at + 1) & last;
  return at;
}

void Recording::make_entries(std::size_t count) {
  entries_.assign(count, 0);
  for (std::size_t k = 0; k < storages_.size(); ++k) {
    entries_[entry_of(storages_[k].get())] = static_cast<std::uint32_t>(k + 1);
  }
}

std::uint64_t Recording::index(const StoragePtr& storage) {
  if (entries_.size() <= 2 * storages_.size()) {
    make_entries(std::max(kFewestEntries, 2 * entries_.size()));
  }
  std::uint32_t& entry = entries_[entry_of(storage.get())];
  if (entry == 0) {
    storages_.push_back(storage);
    entry = static_cast<std::uint32_t>(storages_.size());
  }
  return entry - 1;
}

// Neighbouring rows of one storage are one range.
void Recording::add(const ImageBatch& images) {
  const std::size_t at = operands_.size();
  operands_.push_back(0);
  const Storage* last = nullptr;
  for (const ImagePtr& image : images) {
    const auto first = static_cast<std::uint64_t>(image->first());
    const auto count = static_cast<std::uint64_t>(image->descriptor().number_of_images);
    const std::size_t end = operands_.size();
    if (last == image->storage().get() && operands_[end - 2] + operands_[end - 1] == first) {
      operands_[end - 1] += count;
      continue;
    }
    last = image->storage().get();
    operands_.insert(operands_.end(), {index(image->storage()), first, count});
    ++operands_[at];
  }
  ++operand_count_;
}

void Recording::add(const StoragePtr& storage) {
  operands_.insert(operands_.end(), {1, index(storage), 0, 1});
  ++operand_count_;
}

void Recording::add(const ImagePart& part) {
  parts_.push_back(operand_count_);
  for (std::int64_t word : part.first) parts_.push_back(static_cast<std::uint64_t>(word));
  for (std::int64_t word : part.extent) parts_.push_back(static_cast<std::uint64_t>(word));
  for (std::int64_t word : part.size) parts_.push_back(static_cast<std::uint64_t>(word));
  for (std::int64_t word : part.place) parts_.push_back(static_cast<std::uint64_t>(word));
}

bool Recording::is_readable(const Storage& storage) const {
  return !storage.temporary() || (storage.owner == buffer_.number && storage.written);
}

void Recording::refuse(const Storage& storage, const std::string& what) {
  const std::string subject = "[" + operations_.back()->subject + "] ";
  const bool own = storage.owner == buffer_.number;
  cancel();
  if (!own) {
    throw InvalidArgument(subject + "expected " + what +
                          " of this command buffer but got a temporary one of another");
  }
  throw InvalidArgument(subject + "expected " + what +
                        " that an earlier encoding has written but got one that none has");
}

void Recording::add_part(const ImageBatch& images, const ImagePart* part) {
  if (images.empty()) return;
  const Image& first = *images[0];
  bool in_channels = false;
  for (const ImagePtr& image : images) {
    in_channels = in_channels || image->is_channels();
    if (!in_channels || (image->first_channel() == first.first_channel() &&
                         image->storage()->shape[1] == first.storage()->shape[1])) {
      continue;
    }
    const std::string subject = operations_.back()->subject;
    cancel();
    throw InvalidArgument("[" + subject +
                          "] expected images that are the same channels of others but got " +
                          image->description() + " of other ones");
  }
  if (part != nullptr && part->is_all_of(first.descriptor())) part = nullptr;
  if (part == nullptr && !in_channels) return;
  ImagePart whole = part == nullptr ? channels_of(first.descriptor(), {}) : *part;
  whole.first[0] += first.first_channel();
  add(whole);
}

void Recording::input(const ImageBatch& images) { read(images, nullptr); }
void Recording::input(const ImageBatch& images, const ImagePart& part) { read(images, &part); }

void Recording::read(const ImageBatch& images, const ImagePart* part) {
  for (const ImagePtr& image : images) {
    if (!is_readable(*image->storage())) refuse(*image->storage(), image->description());
  }
  add_part(images, part);
  add(images);
  input_count_ = operand_count_;
}

void Recording::input(const StoragePtr& storage) {
  if (!is_readable(*storage)) refuse(*storage, "a state");
  add(storage);
  input_count_ = operand_count_;
}

void Recording::no_input() {
  operands_.push_back(0);
  input_count_ = ++operand_count_;
}

void Recording::result(const ImageBatch& images) { write(images, nullptr); }
void Recording::result(const ImageBatch& images, const ImagePart& part) { write(images, &part); }

void Recording::write(const ImageBatch& images, const ImagePart* part) {
  for (const ImagePtr& image : images) {
    Storage& storage = *image->storage();
    if (!storage.temporary()) continue;
    if (storage.owner != buffer_.number) refuse(storage, "an image");
    note_writing(storage);
  }
  add_part(images, part);
  add(images);
}

void Recording::result(const StoragePtr& storage) {
  note_writing(*storage);
  add(storage);
}

void Recording::constant(std::uint64_t value) { constants_.push_back(value); }
void Recording::number(double value) { numbers_.push_back(value); }

void Recording::refuse_taken(const Range& result, std::size_t reads, std::size_t first,
                             std::size_t end) {
  for (std::size_t k = first; k < end; ++k) {
    const Range& other = taken_[k];
    if (other.storage != result.storage || other.first >= result.first + result.count ||
        result.first >= other.first + other.count) {
      continue;
    }
    const std::string subject = "[" + operations_.back()->subject + "] ";
    cancel();
    throw InvalidArgument(subject +
                          (k < reads ? "expected destination images apart from the sources but got "
                                       "an image that is both"
                                     : "expected destination images apart from each other but got "
                                       "one of them twice"));
  }
}

void Recording::end() {
  // A result image that is an input as well, or another result. Buffers may be both.
  std::size_t at = 0;
  taken_.clear();
  std::size_t reads = 0;
  std::uint64_t next_storage = 0;  // beyond those of the results so far
  for (std::uint64_t operand = 0; operand < operand_count_; ++operand) {
    const std::uint64_t ranges = operands_[at++];
    if (operand == input_count_) reads = taken_.size();
    for (std::uint64_t r = 0; r < ranges; ++r, at += 3) {
      const Range span{operands_[at], operands_[at + 1], operands_[at + 2]};
      if (!storages_[span.storage]->divisible) continue;
      if (operand >= input_count_) {
        // Results mostly come in the order of their storages, and are then other ones.
        if (span.storage < next_storage) refuse_taken(span, reads, reads, taken_.size());
        refuse_taken(span, reads, 0, reads);
        next_storage = std::max(next_storage, span.storage + 1);
      }
      taken_.push_back(span);
    }
  }
  words_.insert(words_.end(),
                {operations_.back()->number, operand_count_, input_count_, constants_.size(),
                 numbers_.size() - first_number_, parts_.size() / (1 + kPartWords),
                 predicate_ == nullptr ? 0 : 1 + predicate_offset_});
  words_.insert(words_.end(), constants_.begin(), constants_.end());
  words_.insert(words_.end(), parts_.begin(), parts_.end());
  words_.insert(words_.end(), operands_.begin(), operands_.end());
  if (predicate_ != nullptr) words_.insert(words_.end(), {1, index(predicate_), 0, 1});
}

std::vector<std::uint64_t> Recording::storage_words() const {
  std::vector<std::uint64_t> words;
  for (const StoragePtr& storage : storages_) {
    const std::array<std::uint64_t, 3> kind = kind_of(*storage);
    words.insert(words.end(), kind.begin(), kind.end());
    words.insert(words.end(), storage->shape.begin(), storage->shape.end());
  }
  return words;
}

bool Recording::has_storage_words(const std::vector<std::uint64_t>& words) const {
  const std::uint64_t* at = words.data();
  const std::uint64_t* const end = at + words.size();
  for (const StoragePtr& storage : storages_) {
    const std::array<std::uint64_t, 3> kind = kind_of(*storage);
    const Shape& shape = storage->shape;
    if (static_cast<std::size_t>(end - at) < kind.size() + shape.size() ||
        !std::equal(kind.begin(), kind.end(), at)) {
      return false;
    }
    at += kind.size();
    for (std::int64_t extent : shape) {
      if (static_cast<std::uint64_t>(extent) != *at++) return false;
    }
  }
  return at == end;
}

}  // namespace traingraph::mps
