// Emission, which lowers a recording to ops, and CompiledRecording, its program and bindings.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/step_scalars.h"
#include "layers/emitter.h"
#include "mps/recording/recording.h"
#include "passes/passes.h"
#include "runtime/program.h"

namespace traingraph::mps {

// A recording's program, and what its addresses are.
struct CompiledRecording {
  CompiledRecording(const Backend& backend, const std::vector<bool>& wide_in)
      : numbers(backend, wide_in.size()), wide(wide_in) {}

  // What it was compiled for: those of the recording, and the number of threads.
  std::vector<std::uint64_t> words, storage_words;
  int threads = 0;
  std::unique_ptr<Program> program;
  struct Binding {
    std::size_t storage;
    std::size_t offset;  // bytes
    ir::ValueId value;
    ir::Layout layout;
    // Where the kernels work instead, if they cannot there; else nothing.
    std::shared_ptr<std::byte> aligned;
    std::size_t bytes;
    bool written;
  };
  std::vector<Binding> bindings;
  StepScalars numbers;  // of the recording
  std::vector<bool> wide;
  std::vector<std::size_t> numbers_read;
};

struct Encoding;  // encodings.h

// A recording while it is written as ops: which value each image and buffer is now.
//
// Values inside are float32 or float64; what is stored in 16 bits is converted where it is read and
// written. Gradient kernels emit their forward op again and differentiate it: equal ops are joined
// afterwards, and what no result needs is dropped.
class Emission {
 public:
  Emission(const Recording& recording, const Backend& backend);
  std::shared_ptr<CompiledRecording> compile();

  Lowering lowering;
  ir::Graph& graph;

  // Of the operation that writes itself: inputs (kNone: not given), types of the results as they
  // must be, constants.
  std::vector<ir::ValueId> inputs;
  std::vector<ir::Type> results;
  std::vector<std::uint64_t> constants;
  void set(std::size_t result, ir::ValueId value);
  // A scalar that the recording brings at each run; an int64 by its bits.
  ir::ValueId number(std::size_t index, DataType type);

  const ir::Type& type(std::size_t input) const { return graph.type(inputs[input]); }
  // The derivatives of `value` by each of these, given its gradient; zeros where nothing flows.
  // What was there before the operation is held: nothing flows through how one operand made
  // another.
  std::vector<ir::ValueId> gradients(ir::ValueId value, ir::ValueId gradient,
                                     const std::vector<ir::ValueId>& by);
  // Writes a layer over these values; its first result.
  ir::ValueId layer(const Layer& layer, std::vector<ir::ValueId> sources);
  // Makes inputs that are one value differ while the operation writes itself, for derivatives by
  // one of them alone.
  void hold_apart();
  // Raises ShapeError naming the kernel.
  [[noreturn]] void fail(const std::string& text) const;

  // The value whose statistics alone a buffer holds, by the buffer's value. For batch norm.
  std::map<ir::ValueId, ir::ValueId> statistics_of;

 private:
  // Rows of a storage that are always read and written together.
  struct StorageSlice {
    std::size_t storage;
    std::int64_t first;
    std::int64_t count;
    ir::ValueId source = ir::kNone;   // the bytes before the run
    ir::ValueId current = ir::kNone;  // the value now, in the storage's own type
    bool written = false;
  };

  void partition();
  void align(const std::vector<std::vector<Range>>& operands);
  // The storage that stands for those that best lie alike.
  std::size_t group_of(std::size_t storage);
  // Of the operation's nodes.
  void set_phase();
  void write();
  // Lets the operation's nodes read what `hold_apart` has copied.
  void let_go();
  // The operation as one op, if the backend has its kernel by name.
  bool emit_named();
  // Zeros where nothing was written of what is temporary.
  ir::ValueId load(const std::vector<Range>& ranges);
  void store(const std::vector<Range>& ranges, ir::ValueId value);
  template <class F>
  void for_slices(const Range& range, const F& f);
  void write_results();
  std::vector<passes::ParameterLayout> parameter_layouts();
  ir::ValueId fresh_source(StorageSlice& slice);

  const Recording& recording_;
  const Backend& backend_;
  std::vector<std::vector<StorageSlice>> slices_;  // by storage
  std::vector<std::size_t> layout_group_;   // by storage: another that best lies alike, or itself
  std::vector<ir::ValueId> values_;         // its results
  std::vector<ir::ValueId> number_values_;  // by number of the recording
  std::vector<bool> wide_;
  std::size_t first_number_ = 0;
  std::size_t number_count_ = 0;
  const Operation* operation_ = nullptr;
  std::map<ir::ValueId, ir::ValueId> held_;  // copies of inputs, and the inputs
  ir::NodeId first_node_ = 0;                // of the operation
};

}  // namespace traingraph::mps
