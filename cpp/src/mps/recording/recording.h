// Recording, the command list of a command buffer, and its elements: Operation, Range, ImagePart,
// Excerpt.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <traingraph/mps/kernel.h>

#include "ir/attributes.h"
#include "mps/recording/storage.h"

namespace traingraph::mps {

class Emission;

// What a kernel encodes: its properties at that moment, and how they are written as ops.
class Operation {
 public:
  explicit Operation(std::string subject);
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  const std::uint64_t number;  // unique: a kernel whose properties change gets a new operation
  const std::string subject;   // "MPSCNNConvolution 'conv1'"
  // The kernel by its name, where the device's backend has kernels by name. Its kernel adds it.
  mutable std::optional<ir::NamedKernelAttributes> named;
  // Its numbers as that kernel takes them.
  virtual DataType number_type() const { return DataType::kFloat32; }
  virtual void emit(Emission& e) const = 0;
  // Whether it gives this result, or leaves as it is what is there.
  virtual bool writes(std::size_t /*result*/) const { return true; }
  // Whether its results may replace bytes that it reads.
  virtual bool updates() const { return false; }
  // Whether its operands of one shape best lie alike: nothing but elementwise ops between them.
  virtual bool aligns() const { return updates(); }
};

// Rows `first` … of a storage, by its index in the recording; all of what is not divisible.
struct Range {
  std::uint64_t storage;
  std::uint64_t first;
  std::uint64_t count;
};

// A part of each image of an operand, and how an operation sees it. Of a source: channels, rows and
// columns from `first` on, lying at `place` in rows and columns of `size` that are else zero. Of a
// result: what is cut out at `place` and written from `first` on, over what was there.
struct ImagePart {
  std::array<std::int64_t, 3> first{};   // channel, row, column
  std::array<std::int64_t, 3> extent{};  // channels, rows, columns
  std::array<std::int64_t, 2> size{};    // rows, columns
  std::array<std::int64_t, 2> place{};   // row, column
  bool is_all_of(const ImageDescriptor& image) const;
};
inline constexpr std::size_t kPartWords = 10;
inline constexpr std::size_t kHeadWords = 7;  // of an encoding, before its constants

// Encodings apart from their recording: they name storages by their places in a list beside them.
struct Excerpt {
  std::vector<OperationPtr> operations;
  std::vector<std::uint64_t> words;
  std::vector<std::size_t> names;  // the words that name a storage
  std::vector<std::size_t> written;
};

// The encodings of a command buffer as one row of words, which is also the key under which its
// program is found again. Nothing is formatted here.
//
// An encoding: its operation's number, how many operands, how many of those are inputs, how many
// constants, how many numbers, how many parts, 0 or 1 + the offset of the predicate; the constants;
// for each part its operand and the words of an ImagePart; then each operand: how many ranges, and
// three words for each; then the predicate's storage, if there is one, in the same form.
//
// One that is cleared keeps its memory, for the next buffer.
class Recording {
 public:
  // Of the buffer with this number. Images and kernels of the one before may go.
  void clear(BufferRecord buffer);
  // Once it has begun to run: keeps the storages that have bytes, and nothing else.
  void keep_bytes();

  // Of the encodings from now on: whether this element of a row of numbers lets them run.
  // Raises Unsupported for a storage of another kind.
  void run_if(const StoragePtr& predicate, std::size_t offset);
  void run_always() { predicate_ = nullptr; }

  void begin(const OperationPtr& operation);
  // Inputs come before results. A part that is all of its images is none.
  void input(const ImageBatch& images);
  void input(const ImageBatch& images, const ImagePart& part);
  void input(const StoragePtr& storage);
  void no_input();
  void result(const ImageBatch& images);
  void result(const ImageBatch& images, const ImagePart& part);
  void result(const StoragePtr& storage);
  // Changes the program.
  void constant(std::uint64_t value);
  // Does not.
  void number(double value);
  // Raises InvalidArgument, and leaves the recording as before begin(), when a result image is also
  // an input.
  void end();
  // As before begin().
  void cancel();

  // The last encoding reads what one of these buffers writes of a state.
  void comes_after(const EncodedOn& writers, const State& state);
  // Raises InvalidArgument where none of them was committed.
  void check_order() const;

  // How far it is, to come back to when one of several encodings fails.
  struct Mark {
    std::size_t operations, words, numbers, storages, written, order;
  };
  Mark mark() const;
  void roll_back(const Mark& to);

  // What was encoded between two marks, without predicate. Storages that are not among `storages`
  // are added there.
  Excerpt excerpt(const Mark& from, const Mark& to, std::vector<StoragePtr>& storages) const;
  // Encodes it again over these storages, by place. Nothing is checked.
  void append(const Excerpt& excerpt, const std::vector<const StoragePtr*>& storages);

  bool empty() const { return operations_.empty(); }
  const std::vector<std::uint64_t>& words() const { return words_; }
  // Type, shape and lifetime of each storage, by index; and whether they are these.
  std::vector<std::uint64_t> storage_words() const;
  bool has_storage_words(const std::vector<std::uint64_t>& words) const;
  const std::vector<StoragePtr>& storages() const { return storages_; }
  const std::vector<OperationPtr>& operations() const { return operations_; }
  const std::vector<double>& numbers() const { return numbers_; }

 private:
  std::uint64_t index(const StoragePtr& storage);
  // Where the storage is entered in `entries_`, or is to be.
  std::size_t entry_of(const Storage* storage) const;
  void make_entries(std::size_t count);
  void add(const ImageBatch& images);
  void add(const StoragePtr& storage);
  void add(const ImagePart& part);
  // All of the images, or this part of each.
  void read(const ImageBatch& images, const ImagePart* part);
  void write(const ImageBatch& images, const ImagePart* part);
  // The part of what the images are channels of; `part` is one of the images, or null for all.
  void add_part(const ImageBatch& images, const ImagePart* part);
  bool is_readable(const Storage& storage) const;
  [[noreturn]] void refuse(const Storage& storage, const std::string& what);
  void note_writing(Storage& storage);
  // From this one of `written_` on.
  void forget_writing(std::size_t first);
  // Raises for a result that is among these of `taken_`, of which the first ones are read.
  void refuse_taken(const Range& result, std::size_t reads, std::size_t first, std::size_t end);

  BufferRecord buffer_;
  std::vector<std::uint64_t> words_;
  std::vector<StoragePtr> storages_;
  // The indices of storages by a hash of their address: index + 1, or 0 for none. A power of two,
  // at most half full.
  std::vector<std::uint32_t> entries_;
  std::vector<OperationPtr> operations_;
  std::vector<double> numbers_;
  std::vector<Storage*> written_;  // first by one of these encodings
  struct Order {
    EncodedOn writers;
    std::string expected;
  };
  std::vector<Order> order_;
  StoragePtr predicate_;  // null: none
  std::uint64_t predicate_offset_ = 0;
  // Of the encoding being written.
  std::size_t first_number_ = 0;
  std::size_t first_written_ = 0;
  std::size_t first_order_ = 0;
  std::vector<std::uint64_t> constants_;
  std::vector<std::uint64_t> parts_;
  std::vector<std::uint64_t> operands_;
  std::uint64_t operand_count_ = 0;
  std::uint64_t input_count_ = 0;
  std::vector<Range> taken_;  // images read and written, at its end
};

}  // namespace traingraph::mps
