// How a graph writes a checkpoint, and how it takes one back.
// Over 400 lines: what is written and what is taken stand in one order, for whoever adds to both.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <span>

#include <traingraph/device.h>
#include <traingraph/errors.h>
#include <traingraph/graph.h>

#include "distributed/ranks.h"
#include "graph/checkpoint/checkpoint_contents.h"
#include "graph/checkpoint/fit_entries.h"
#include "graph/checkpoint/safetensors.h"
#include "graph/lowering/loss_scaling.h"
#include "graph/lowering/lowering.h"
#include "graph/run/executor.h"
#include "graph/run/update_count.h"
#include "graph/state/attendance.h"
#include "graph/state/graph_state.h"
#include "graph/state/load_checkpoint.h"
#include "graph/state/own_metadata.h"
#include "runtime/memory/parameter_store.h"

namespace traingraph {
namespace {

void run_between(const GraphState& state, const std::function<void()>& work) {
  const std::shared_ptr<Executor> executor = state.newest_executor();
  if (executor == nullptr) return work();
  executor->run_between(work);
}

BegunStepPtr begun_step(const GraphState& state) {
  const std::shared_ptr<Executor> executor = state.newest_executor();
  return executor != nullptr ? executor->begun_step(state.snapshot()->changes)
                             : state.resumed->get();
}

// --- out -----------------------------------------------------------------------------------------

std::int64_t number_of(const GraphState& state, const std::string& name) {
  const std::lock_guard lock(structure());
  if (name == kForwardCount) return *state.forward_count;
  if (name == kRandomSeed) return static_cast<std::int64_t>(state.random_seed);
  return UpdateCount::time_step(*state.optimizer);
}

std::set<const Tensor*> tensors_of(const NamedTensors& named) {
  std::set<const Tensor*> tensors;
  for (const auto& [name, tensor] : named) tensors.insert(tensor.get());
  return tensors;
}

// A step that was loaded has sums of what was trained where it was saved.
bool sums_gradients_of(const BegunStep& begun, const NamedTensors& trained) {
  const std::set<const Tensor*> tensors = tensors_of(trained);
  return begun.sums.size() == trained.size() &&
         std::ranges::all_of(begun.sums,
                             [&](const auto& sum) { return tensors.contains(sum.first.get()); });
}

// Amid micro-batches each rank has a sum of its own, which is none of the state of all.
void check_sums_are_whole(const GraphState& state) {
  if (state.ranks == nullptr) return;
  throw InvalidArgument(
      "[checkpoint] expected a whole step over several ranks but got one of micro-batches that has "
      "begun, of which each rank has a sum of its own; execute the rest of its micro-batches");
}

void check_no_step_has_begun(const Contents& contents, const GraphState& state) {
  const BegunStepPtr begun = begun_step(state);
  if (begun != nullptr && sums_gradients_of(*begun, contents.summed)) check_sums_are_whole(state);
}

TensorData copy_of(const Tensor& tensor) {
  const TensorDescriptor& d = tensor.descriptor();
  TensorData data = TensorData::copy_of(nullptr, 0, d.data_type, d.shape);
  tensor.copy_to(data.bytes, data.length);
  return data;
}

// Those that have optimizer buffers.
NamedTensors with_buffers(const Contents& contents) {
  const std::set<const Tensor*> resting = tensors_of(contents.resting);
  const std::set<const Tensor*> updated = tensors_of(contents.updated);
  NamedTensors result;
  for (const auto& [name, tensor] : contents.parameters) {
    const bool rests =
        resting.contains(tensor.get()) && has_optimizer_data(*tensor, contents.slots);
    if (rests || updated.contains(tensor.get())) result.emplace_back(name, tensor);
  }
  return result;
}

NamedData copy_of(const Contents& contents, const GraphState& state) {
  NamedData result;
  for (const NamedTensors* group : {&contents.parameters, &contents.scaling}) {
    for (const auto& [name, tensor] : *group) result.emplace_back(name, copy_of(*tensor));
  }
  for (const auto& [name, tensor] : with_buffers(contents)) {
    std::vector<TensorData> buffers = copy_optimizer_data(*tensor, contents.slots);
    for (std::size_t k = 0; k < buffers.size(); ++k) {
      result.emplace_back(slot_name(name, contents.slots[k]), std::move(buffers[k]));
    }
  }
  auto add_number = [&](const std::string& name, std::int64_t number) {
    result.emplace_back(name, TensorData::copy_of(&number, sizeof number, DataType::kInt64, {}));
  };
  for (const std::string& name : contents.numbers) add_number(name, number_of(state, name));
  const BegunStepPtr begun = state.training ? begun_step(state) : nullptr;
  if (begun == nullptr || !sums_gradients_of(*begun, contents.summed)) return result;
  check_sums_are_whole(state);
  add_number(kMicroBatches, begun->micro_batches);
  add_number(kSummed, begun->summed);
  add_number(kSummedRows, begun->rows);
  std::map<const Tensor*, const TensorData*> sums;
  for (const auto& [of, sum] : begun->sums) sums.emplace(of.get(), &sum);
  for (const auto& [name, tensor] : contents.summed) {
    result.emplace_back(sum_name(name), *sums.at(tensor.get()));
  }
  return result;
}

// --- in ------------------------------------------------------------------------------------------

bool is_of_training(const std::string& name) {
  return name.starts_with(kOfOptimizer) || name.starts_with(kOfState) || name.starts_with(kOfFit);
}

// Values by name, and how their types are called where they come from.
struct Values {
  std::string source;
  std::map<std::string, StoredTensor> tensors;
  const SafetensorsFile* file = nullptr;  // of which nothing but the header has been read

  bool any_of_training() const {
    return std::ranges::any_of(tensors, [](const auto& one) { return is_of_training(one.first); });
  }
  void read(bool with_training) {
    for (auto& [name, tensor] : tensors) {
      if (with_training || !is_of_training(name)) file->read(tensor);
    }
  }
  bool has_begun_step() const { return tensors.contains(kSummed); }
  bool any_slot_of(const std::string& parameter, const std::vector<std::string>& slots) const {
    return std::any_of(slots.begin(), slots.end(), [&](const std::string& slot) {
      return tensors.contains(slot_name(parameter, slot));
    });
  }
  const TensorData& at(const std::string& name) const { return tensors.at(name).data; }
  std::int64_t number(const std::string& name) const {
    std::int64_t value = 0;
    std::memcpy(&value, at(name).bytes, sizeof value);
    return value;
  }
};

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

void check(const Values& values, const Contents& contents, const GraphState& state) {
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

// To be written; `host` is locked.
void make_host_copy(Tensor& tensor) {
  if (tensor.data().bytes != nullptr) return;
  const TensorDescriptor& d = tensor.descriptor();
  tensor.state().data = TensorData::copy_of(nullptr, 0, d.data_type, d.shape);
}

// Into the memory that the tensor already has, which may be the caller's, and on to the device.
void replace_data(Tensor& tensor, const TensorData& data) {
  TensorState& state = tensor.state();
  std::unique_lock lock(state.host);
  std::memcpy(state.data.bytes, data.bytes, data.length);
  state.device_data = {};
  ++state.writes;
  state.host_is_newer = true;
  lock.unlock();
  if (state.parameter == nullptr) return;
  state.parameter->stream->run([&] { upload_if_newer(tensor); });
}

void replace_parameter(GraphState& state, const TensorPtr& tensor, const TensorData& data) {
  replace_data(*tensor, data);
  const std::lock_guard lock(structure());
  if (state.constants.contains(tensor)) ++state.changes;  // folded: compile anew
}

void replace_optimizer_data(Tensor& tensor, std::vector<TensorData> data,
                            const std::vector<std::string>& slots) {
  tensor.set_optimizer_data(std::move(data));
  const ParameterState* parameter = tensor.state().parameter.get();
  // A graph that has not been compiled takes it at its first execution.
  if (parameter == nullptr) return;
  parameter->stream->run([&] { upload_optimizer_data(tensor, slots); });
  const std::lock_guard lock(tensor.state().host);
  tensor.state().optimizer_data.clear();  // no copy beside the device's
}

void replace_number(GraphState& state, const std::string& name, std::int64_t value) {
  if (name == kForwardCount) {
    *state.forward_count = value;
  } else if (name == kTimeStep) {
    UpdateCount::set_time_step(*state.snapshot()->optimizer, value);
  } else if (const auto seed = static_cast<std::uint64_t>(value); seed != state.random_seed) {
    // Seeds are compiled in.
    const std::lock_guard lock(structure());
    state.random_seed = seed;
    ++state.changes;
  }
}

// A checkpoint without a scale starts one anew.
void replace_scaling(const Contents& contents, const Values& values) {
  for (const auto& [name, tensor] : contents.scaling) {
    const float start = name == kLossScale ? static_cast<float>(LossScaling::kStart) : 0.0f;
    const auto found = values.tensors.find(name);
    replace_data(*tensor, found != values.tensors.end()
                              ? found->second.data
                              : TensorData::copy_of(&start, sizeof start, DataType::kFloat32, {1}));
  }
}

// Buffers that the file does not have are those of a parameter that was never updated: zeros.
void replace_optimizer_data(const Contents& contents, const Values& values) {
  for (const NamedTensors* group : {&contents.updated, &contents.resting}) {
    for (const auto& [name, tensor] : *group) {
      const bool there = values.any_slot_of(name, contents.slots);
      if (!there && !has_optimizer_data(*tensor, contents.slots)) continue;
      const TensorDescriptor& d = tensor->descriptor();
      std::vector<TensorData> buffers;
      for (const std::string& slot : contents.slots) {
        buffers.push_back(there ? values.at(slot_name(name, slot))
                                : TensorData::copy_of(nullptr, 0, d.data_type, d.shape));
      }
      replace_optimizer_data(*tensor, std::move(buffers), contents.slots);
    }
  }
}

// What a step began with before the load is gone.
void give_up_step(bool has_begun_step, const std::string& source, GraphState& state) {
  const std::shared_ptr<Executor> executor = state.newest_executor();
  if (executor != nullptr && !executor->give_up_step(has_begun_step)) {
    throw InvalidArgument("[load] expected no later step in flight, because " + source +
                          " was saved between the micro-batches of one");
  }
  state.resumed->set(nullptr);
}

void replace_begun_step(const Contents& contents, const Values& values, GraphState& state) {
  if (!values.has_begun_step()) return;
  BegunStep begun{
      values.number(kMicroBatches), values.number(kSummed), values.number(kSummedRows), {}};
  for (const auto& [name, tensor] : contents.summed) {
    begun.sums.emplace_back(tensor, values.at(sum_name(name)));
  }
  if (state.newest_executor() != nullptr) begun.taken_at = state.snapshot()->changes;
  state.resumed->set(std::make_shared<const BegunStep>(std::move(begun)));
}

void replace(const Contents& contents, const Values& values, GraphState& state) {
  if (state.training) give_up_step(values.has_begun_step(), values.source, state);
  state.fit_place->set(nullptr);
  for (const auto& [name, tensor] : contents.parameters) {
    replace_parameter(state, tensor, values.at(name));
  }
  replace_scaling(contents, values);
  replace_optimizer_data(contents, values);
  for (const std::string& name : contents.numbers) replace_number(state, name, values.number(name));
  if (state.training) replace_begun_step(contents, values, state);
}

// A constant that the file has is one that the graph that wrote it has trained.
void take_trained(const Values& values, Contents& contents) {
  for (const auto& entry : contents.untrained) {
    if (values.tensors.contains(entry.first)) contents.parameters.push_back(entry);
  }
}

// Everything is checked before anything is changed, and before a file is read but for its header.
void take(Values& values, GraphState& state) {
  const bool with_training = state.training && values.any_of_training();
  // Also before a compile, which then takes them.
  const bool scaled = with_training && values.tensors.contains(kLossScale);
  const std::shared_ptr<const GraphState> now = state.snapshot();
  Contents contents = contents_of(*now, with_training);
  if (!state.training) take_trained(values, contents);
  check(values, contents, *now);
  if (with_training && values.has_begun_step()) check_sums_are_whole(*now);
  if (values.file != nullptr) {
    values.read(state.training);
    check(values, contents, *now);
  }
  if (scaled && contents.scaling.empty()) {
    {
      const std::lock_guard lock(structure());
      LossScaling::prepare(state);
    }
    contents = contents_of(*state.snapshot(), with_training);
  }
  for (const auto& [name, tensor] : contents.parameters) {
    const std::lock_guard lock(tensor->state().host);
    if (!state.training && name.starts_with("tensor.")) tensor->state().is_trained = true;
    make_host_copy(*tensor);
  }
  run_between(state, [&] { replace(contents, values, state); });
}

// Of a fit that has not ended, unless the graph has gone on since.
void add_fit_place(const GraphState& state, NamedData& saved) {
  const FitPlacePtr place = state.fit_place->get();
  if (place == nullptr) return;
  const auto number = [&saved](const char* name) {
    const auto found = std::ranges::find(saved, name, &NamedData::value_type::first);
    std::int64_t value = 0;
    if (found != saved.end()) std::memcpy(&value, found->second.bytes, sizeof value);
    return value;
  };
  const std::int64_t passes =
      passes_of(number(kForwardCount), state.micro_batches, number(kSummed));
  if (passes != place->passes) return;
  FitPlace now = *place;
  // Callbacks that set a rate hear of their epoch again.
  if (!state.fit_place->runs()) now.learning_rate = place->rate_now(state.optimizer.get());
  std::ranges::move(entries_of(now), std::back_inserter(saved));
}

}  // namespace

NamedTensors ExecutableGraph::named_parameters() const {
  return contents_of(*state_->snapshot(), false).parameters;
}

namespace {

// Of a state in parts, which the others have.
void ask_attending(const GraphState& state) {
  if (state.is_attended) attended(state, Attended::copies_state);
}

// By all ranks: what is written is the same on each, and all go on when the file is there.
void save_by_first_rank(const GraphState& state, const std::string& path,
                        const std::function<void()>& write) {
  std::exception_ptr failed;
  double failures = 0;
  if (state.ranks->rank() == 0) {
    try {
      write();
    } catch (...) {
      failed = std::current_exception();
      failures = 1;
    }
  }
  state.ranks->add({&failures, 1});
  if (failed != nullptr) std::rethrow_exception(failed);
  if (failures == 0) return;
  throw FileError(path, "rank 0, which writes it, has failed", EIO);
}

}  // namespace

NamedData ExecutableGraph::copy_state() const {
  ask_attending(*state_);
  const Contents contents = contents_of(*state_->snapshot(), state_->training);
  NamedData result;
  run_between(*state_, [&] { result = copy_of(contents, *state_); });
  return result;
}

void ExecutableGraph::save(const std::string& path, const Metadata& given) const {
  Metadata metadata{{kFormat, kOwnFormat}, {"version", Platform::version()}};
  const OptimizerPtr optimizer = state_->snapshot()->optimizer;
  if (optimizer != nullptr) metadata["optimizer"] = optimizer->description();
  check_metadata(given, "[save]");
  metadata.insert(given.begin(), given.end());
  const Contents contents = contents_of(*state_->snapshot(), state_->training);
  ask_attending(*state_);
  const bool is_of_all_ranks = state_->buffer_parts != nullptr && !state_->is_attended;
  NamedData tensors;
  if (is_of_all_ranks && state_->ranks->rank() != 0) {
    give_parts(*state_);
  } else {
    run_between(*state_, [&] {
      tensors = copy_of(contents, *state_);
      add_fit_place(*state_, tensors);
    });
  }
  const auto write = [&] { write_safetensors(path, tensors, metadata); };
  if (!is_of_all_ranks) return write();
  save_by_first_rank(*state_, path, write);
}

Metadata ExecutableGraph::load(const std::string& path) {
  return load_checkpoint(*state_, path, [](const FitPlace*) {});
}

Metadata load_checkpoint(GraphState& state, const std::string& path,
                         const std::function<void(const FitPlace*)>& check_place) {
  const SafetensorsFile file(path);
  Values values{"'" + path + "'", {}, &file};
  NamedData of_fit;
  for (StoredTensor tensor : file.tensors()) {
    if (state.training && tensor.name.starts_with(kOfFit)) {
      if (tensor.data.data_type == DataType::kInvalid) {
        throw InvalidArgument("[load] expected of the fit in " + values.source + " '" +
                              tensor.name + "' of a type that tensors have but got " + tensor.type);
      }
      file.read(tensor);
      of_fit.emplace_back(std::move(tensor.name), std::move(tensor.data));
    } else {
      // The sums of a step depend on it: what is told of their names tells of it, too.
      const bool is_number = tensor.data.shape.empty() && tensor.data.data_type == DataType::kInt64;
      if (state.training && is_number && tensor.name == kMicroBatches) file.read(tensor);
      values.tensors.emplace(tensor.name, std::move(tensor));
    }
  }
  std::shared_ptr<FitPlace> place;
  if (!of_fit.empty()) place = std::make_shared<FitPlace>(place_of(of_fit, values.source));
  if (!values.any_of_training()) place = nullptr;
  check_place(place.get());
  take(values, state);
  if (place != nullptr) {
    const std::int64_t summed = values.has_begun_step() ? values.number(kSummed) : 0;
    const std::int64_t micro =
        place->micro_batches != 0 ? place->micro_batches : state.micro_batches;
    place->passes = passes_of(values.number(kForwardCount), micro, summed);
    if (state.optimizer != nullptr) place->optimizer_rate = state.optimizer->learning_rate();
    state.fit_place->set(std::move(place));
  }
  Metadata metadata = file.metadata();
  std::erase_if(metadata, [](const auto& entry) { return is_own_metadata(entry.first); });
  return metadata;
}

void check_is_checkpoint(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error || size == 0) return;
  try {
    const SafetensorsFile file(path);
    const auto format = file.metadata().find(kFormat);
    if (format != file.metadata().end() && format->second == kOwnFormat) return;
    // Other programs that write it anew leave out what it says of itself.
    const auto is_own = [](const StoredTensor& tensor) { return tensor.name == kForwardCount; };
    if (std::ranges::any_of(file.tensors(), is_own)) return;
  } catch (const InvalidArgument&) {  // no such file at all
  }
  throw InvalidArgument("[Checkpoint] expected a checkpoint to replace, or no file, but got '" +
                        path + "', a file that is no checkpoint of this library; pass another " +
                        "path");
}

void give_parts(const GraphState& state) {
  const Contents contents = contents_of(*state.snapshot(), true);
  run_between(state, [&] {
    for (const auto& [name, tensor] : with_buffers(contents)) {
      copy_optimizer_data(*tensor, contents.slots);
    }
    check_no_step_has_begun(contents, state);
  });
}

std::string entries_of_state(const GraphState& state) {
  const Contents contents = contents_of(*state.snapshot(), true);
  check_no_step_has_begun(contents, state);
  std::string entries;
  const auto add = [&](const std::string& name, const Tensor& tensor) {
    const TensorDescriptor& d = tensor.descriptor();
    entries += name + " " + traingraph::name(d.data_type) + " " + to_string(d.shape) + "\n";
  };
  for (const NamedTensors* group : {&contents.parameters, &contents.scaling}) {
    for (const auto& [name, tensor] : *group) add(name, *tensor);
  }
  for (const auto& [name, tensor] : with_buffers(contents)) {
    for (const std::string& slot : contents.slots) add(slot_name(name, slot), *tensor);
  }
  for (const std::string& name : contents.numbers) entries += name + "\n";
  return entries;
}

void take_state_of_first_rank(GraphState& state) {
  const Contents contents = contents_of(*state.snapshot(), true);
  distributed::Ranks& ranks = *state.ranks;
  const bool takes = ranks.rank() != 0;
  const auto tell = [&ranks](const TensorData& data) {
    ranks.broadcast({static_cast<std::byte*>(data.bytes), data.length});
  };
  run_between(state, [&] {
    if (takes) {
      give_up_step(false, "rank 0", state);
      state.fit_place->set(nullptr);
    }
    for (const NamedTensors* group : {&contents.parameters, &contents.scaling}) {
      for (const auto& [name, tensor] : *group) {
        const TensorData data = copy_of(*tensor);
        tell(data);
        if (!takes) continue;
        {
          const std::lock_guard lock(tensor->state().host);
          make_host_copy(*tensor);
        }
        replace_parameter(state, tensor, data);
      }
    }
    for (const auto& [name, tensor] : with_buffers(contents)) {
      std::vector<TensorData> buffers = copy_optimizer_data(*tensor, contents.slots);
      for (const TensorData& data : buffers) tell(data);
      if (takes) replace_optimizer_data(*tensor, std::move(buffers), contents.slots);
    }
    for (const std::string& name : contents.numbers) {
      std::int64_t number = number_of(state, name);
      ranks.broadcast(std::as_writable_bytes(std::span(&number, 1)));
      if (takes) replace_number(state, name, number);
    }
  });
}

void ExecutableGraph::load_state(const NamedData& given) {
  Values values{"what was given", {}, nullptr};
  for (const auto& [name, data] : given) {
    if (data.bytes == nullptr) {
      throw InvalidArgument("[load_state] expected data for '" + name + "' but got none");
    }
    // Copies: an array may be the memory of a tensor that is about to be written.
    StoredTensor tensor{name, traingraph::name(data.data_type),
                        TensorData::copy_of(data.bytes, data.length, data.data_type, data.shape)};
    if (!values.tensors.emplace(name, std::move(tensor)).second) {
      throw InvalidArgument("[load_state] expected each name once but got '" + name + "' twice");
    }
  }
  take(values, *state_);
}

}  // namespace traingraph
