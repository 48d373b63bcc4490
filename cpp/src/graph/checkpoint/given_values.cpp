// Values of a checkpoint, read and compared with what a graph has.
#include "graph/checkpoint/given_values.h"

#include <limits>
#include <set>

#include <traingraph/errors.h>

#include "graph/checkpoint/fit_entries.h"
#include "graph/lowering/loss_scaling.h"
#include "graph/lowering/lowering.h"

namespace traingraph {

bool is_of_training(const std::string& name) {
  return name.starts_with(kOfOptimizer) || name.starts_with(kOfState) || name.starts_with(kOfFit);
}

namespace {

// Collects what differs, so that one error says all of it.
class Differences {
 public:
  explicit Differences(const Values& values) : values_(values) {}

  // `why_missing` ends the line about one that is not there.
  void expect(const std::string& name, DataType type, const Shape& shape,
              const std::string& why_missing = "") {
    expected_.insert(name);
    const auto found = values_.tensors.find(name);
    if (found == values_.tensors.end()) {
      if (name.starts_with(kOfOptimizer)) ++of_buffers_;
      return add("missing: '" + name + "'" + why_missing);
    }
    const StoredTensor& got = found->second;
    if (got.data.data_type != type) {
      add("'" + name + "': expected " + traingraph::name(type) + " but got " + got.type);
    }
    if (got.data.shape != shape) {
      add("'" + name + "': expected shape " + to_string(shape) + " but got " +
          to_string(got.data.shape));
    }
    const bool is_there = got.data.bytes != nullptr;
    if (!is_there || got.data.data_type != type || got.data.shape != shape) return;
    if (const std::string wrong = wrong_number(name, got.data); !wrong.empty()) {
      add("'" + name + "': " + wrong);
    }
  }

  // A number that lies within what the graph can go on with; says nothing of one that is no number.
  void expect_between(const std::string& name, std::int64_t least, std::int64_t most,
                      const char* why) {
    expect(name, DataType::kInt64, {});
    const auto found = values_.tensors.find(name);
    if (found == values_.tensors.end()) return;
    const TensorData& got = found->second.data;
    const bool is_number = got.data_type == DataType::kInt64 && got.shape.empty();
    if (!is_number || got.bytes == nullptr) return;  // or not read yet
    const std::int64_t value = values_.number(name);
    if (value >= least && value <= most) return;
    add("'" + name + "': expected " + std::to_string(least) +
        (most == least ? "" : " to " + std::to_string(most)) + why + " but got " +
        std::to_string(value));
  }

  // Raises what was found, with the names that nothing expected. `own`: the graph's optimizer.
  void raise(bool ignores_training, const Optimizer* own) {
    for (const auto& [name, tensor] : values_.tensors) {
      if (expected_.contains(name)) continue;
      if (!ignores_training || !is_of_training(name)) {
        add("unexpected: '" + name + "'");
        if (!name.starts_with(kOfOptimizer)) continue;
        ++of_buffers_;
        has_other_buffers_ = true;
      } else if (values_.file != nullptr && !is_safetensors_type(tensor.type)) {
        add("'" + name + "': expected a type of the format but got " + tensor.type);
      }
    }
    if (count_ == 0) return;
    const std::string other = other_optimizer(own);
    if ((has_other_buffers_ || !other.empty()) && of_buffers_ == count_) {
      text_ += "\n  they are of another optimizer" + other +
               "; load_state({name: state[name] for name in named_parameters()}) takes the weights "
               "alone";
    }
    throw InvalidArgument("[load] expected the tensors of this graph but " + values_.source +
                          " differs in " + std::to_string(count_) +
                          (count_ == 1 ? " place:" : " places:") + text_);
  }

 private:
  // ": the file is of Adam, this graph has SGD", where the file tells of another one.
  std::string other_optimizer(const Optimizer* own) const {
    if (values_.file == nullptr || own == nullptr) return "";
    const auto found = values_.file->metadata().find("optimizer");
    if (found == values_.file->metadata().end()) return "";
    const auto kind = [](const std::string& text) { return text.substr(0, text.find('(')); };
    const std::string theirs = kind(found->second), ours = kind(own->description());
    return theirs == ours ? "" : ": the file is of " + theirs + ", this graph has " + ours;
  }
  void add(const std::string& text) {
    text_ += "\n  " + text;
    ++count_;
  }

  const Values& values_;
  std::set<std::string> expected_;
  std::string text_;
  int count_ = 0;
  int of_buffers_ = 0;              // of these, optimizer buffers that only one side has
  bool has_other_buffers_ = false;  // some that this optimizer has not
};

}  // namespace

void check_values(const Values& values, const Contents& contents, const GraphState& state) {
  Differences differences(values);
  auto expect = [&](const std::string& name, const Tensor& tensor, const char* why_missing = "") {
    const TensorDescriptor& d = tensor.descriptor();
    differences.expect(name, d.data_type, d.shape, why_missing);
  };
  for (const auto& [name, tensor] : contents.parameters) expect(name, *tensor);
  for (const NamedTensors* group : {&contents.updated, &contents.resting}) {
    for (const auto& [name, tensor] : *group) {
      const bool there = values.any_slot_of(name, contents.slots);
      if (!there && group == &contents.resting) continue;
      const char* why = there ? "" : ": frozen when saved? Then load while it is, and thaw it";
      for (const std::string& slot : contents.slots) expect(slot_name(name, slot), *tensor, why);
    }
  }
  for (const char* name : {kLossScale, kGoodSteps}) {
    if (values.tensors.contains(name)) differences.expect(name, DataType::kFloat32, {1});
  }
  for (const std::string& name : contents.numbers) differences.expect(name, DataType::kInt64, {});
  if (state.training && values.has_begun_step()) {
    const std::int64_t count = state.micro_batches;
    differences.expect_between(kMicroBatches, count, count, ", the graph's micro_batches,");
    differences.expect_between(kSummed, 1, std::max<std::int64_t>(1, count - 1), "");
    // Inputs without a common extent on axis 0 have no rows to count.
    const bool has_rows = declared_batch(state) != 0;
    differences.expect_between(kSummedRows, has_rows ? 1 : 0,
                               has_rows ? std::numeric_limits<std::int64_t>::max() : 0, "");
    for (const auto& [name, tensor] : contents.summed) expect(sum_name(name), *tensor);
  }
  differences.raise(!state.training, state.optimizer.get());
}

}  // namespace traingraph
