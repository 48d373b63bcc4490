// How a graph writes a checkpoint, and how it takes one back.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>

#include <traingraph/device.h>
#include <traingraph/errors.h>
#include <traingraph/graph.h>

#include "distributed/ranks.h"
#include "graph/checkpoint/checkpoint_contents.h"
#include "graph/checkpoint/copied_state.h"
#include "graph/checkpoint/fit_entries.h"
#include "graph/checkpoint/given_values.h"
#include "graph/checkpoint/replaced_state.h"
#include "graph/checkpoint/safetensors.h"
#include "graph/lowering/loss_scaling.h"
#include "graph/run/executor.h"
#include "graph/state/attendance.h"
#include "graph/state/load_checkpoint.h"
#include "graph/state/own_metadata.h"
#include "graph/state/rank_state.h"

namespace traingraph {
namespace {

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
  check_values(values, contents, *now);
  if (with_training && values.has_begun_step()) check_sums_are_whole(*now);
  if (values.file != nullptr) {
    values.read(state.training);
    check_values(values, contents, *now);
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
  run_between(state, [&] { replace_state(contents, values, state); });
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

NamedTensors ExecutableGraph::named_parameters() const {
  return contents_of(*state_->snapshot(), false).parameters;
}

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
