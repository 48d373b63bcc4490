// Parts of global batches, and what the ranks of a fit tell each other beside gradients.
#include "graph/fit/rank_batches.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include <traingraph/errors.h>

#include "graph/fit/fit_checks.h"
#include "graph/fit/resumed_fit.h"
#include "graph/run/executor.h"
#include "graph/state/attendance.h"
#include "graph/state/rank_state.h"
#include "ir/number_text.h"

namespace traingraph {
namespace {

// Stands for a callback of the first rank, so that checkpoints are read as there.
class AskedElsewhere final : public FitCallback {
 public:
  explicit AskedElsewhere(FitCallbackPtr there) : there_(std::move(there)) {}
  bool after_epoch(TrainingGraph&, const Epoch&) override { return true; }
  NamedData copy_state() const override { return there_->copy_state(); }
  std::string kind() const override { return there_->kind(); }
  void resume(TrainingGraph&, int, const NamedData&) override {}
  const FitCallback& there() const { return *there_; }

 private:
  FitCallbackPtr there_;
};

// The rates of some steps of the fit, from its first to its last one.
std::string text_of(const RateSchedule& schedule, const FitPlace& place, int epochs,
                    int micro_batches, std::int64_t first) {
  std::int64_t updates = 1;  // of an iterable nobody knows
  if (place.samples != 0) {
    const std::int64_t steps = (place.samples + place.batch_size - 1) / place.batch_size;
    updates = std::max<std::int64_t>((epochs - place.epoch + 1) * steps / micro_batches, 1);
  }
  std::string rates = "a schedule with the rates";
  for (const std::int64_t quarters : {0, 1, 2, 3, 4}) {
    const std::int64_t update = first + (updates - 1) * quarters / 4;
    rates += (quarters == 0 ? " " : ", ") + short_text(static_cast<float>(schedule(update))) +
             " of step " + std::to_string(update + 1);
  }
  return rates;
}

std::uint64_t digest_with(std::uint64_t digest, std::span<const std::byte> bytes) {
  std::uint64_t word = 0;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof word) {
    word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof word, bytes.size() - at));
    digest = std::rotl((digest ^ word) * 0x9e3779b97f4a7c15, 31);
  }
  return digest;
}

// Of which all make the same bits of the same numbers.
std::string kind_of_processor(const GraphState& state) {
  std::string kind = Platform::instruction_set();
  if (!state.device) return kind;
  const Backend& backend = backend_named(state.device->backend(), state.device->index());
  for (const std::string& device : backend.devices()) kind += ", " + device;
  return kind;
}

// One number of all bytes of the parameters.
std::uint64_t digest_of_parameters(const TrainingGraph& graph, GraphState& state) {
  std::uint64_t digest = 0;
  const NamedTensors parameters = graph.named_parameters();
  state.current_executor("fit")->run_between([&] {
    std::vector<std::byte> bytes;
    for (const auto& [name, tensor] : parameters) {
      bytes.resize(tensor->descriptor().allocation_bytes());
      tensor->copy_to(bytes.data(), bytes.size());
      digest = digest_with(digest, bytes);
    }
  });
  return digest;
}

// Raises InvalidArgument on all ranks where one has another digest than the first of its kind of
// processor; kinds differ in the last bits of an update.
void check_same_parameters(const GraphState& state, std::uint64_t digest) {
  const std::vector<std::string> kinds = state.ranks->all_texts(kind_of_processor(state));
  const std::vector<std::byte> all = state.ranks->all_gather(std::as_bytes(std::span(&digest, 1)));
  std::vector<std::uint64_t> digests(kinds.size());
  std::memcpy(digests.data(), all.data(), all.size());
  for (std::size_t r = 0; r < kinds.size(); ++r) {
    const auto first = static_cast<std::size_t>(std::ranges::find(kinds, kinds[r]) - kinds.begin());
    if (digests[r] == digests[first]) continue;
    throw InvalidArgument(
        "[fit] expected one set of parameters on all ranks but got others on rank " +
        std::to_string(r) + " than on rank " + std::to_string(first) +
        "; load or set them alike on all ranks, or before compile, which gives "
        "all ranks those of rank 0");
  }
}

// What has to be the same on all ranks, and is not in the program; a line each.
std::string facts_of(const GraphState& state, const FitPlace& place,
                     const FitArguments& arguments) {
  std::vector<std::string> facts;
  const auto& file = arguments.resume;
  facts.emplace_back(!file                      ? "no resume"
                     : is_there_to_go_on(*file) ? "a file to resume"
                                                : "no file to resume, where it looked");
  facts.push_back("epoch " + std::to_string(place.epoch) + ", step " + std::to_string(place.steps) +
                  " of batches of " + std::to_string(place.batch_size) + " of " +
                  std::to_string(place.samples) + " samples");
  facts.push_back("epochs=" + std::to_string(arguments.epochs));
  facts.push_back(shuffle_of(place));
  facts.push_back("micro_batches=" + std::to_string(state.micro_batches));
  const OptimizerPtr optimizer = state.snapshot()->optimizer;
  if (optimizer != nullptr) {
    const std::int64_t step = optimizer->time_step();
    facts.push_back("an optimizer in step " + std::to_string(step));
    facts.push_back(arguments.schedule ? text_of(*arguments.schedule, place, arguments.epochs,
                                                 state.micro_batches, step - 1)
                                       : "learning_rate=" + short_text(optimizer->learning_rate()));
  }
  facts.push_back(text_of_metrics(arguments.metrics));
  std::string validation = "no validation";
  if (arguments.validation && !arguments.validation->inputs.empty()) {
    const Shape& shape = arguments.validation->inputs.front().second.shape;
    validation =
        "a validation of " + (shape.empty() ? "no" : std::to_string(shape[0])) + " samples";
  }
  facts.push_back(validation);
  std::string stopping;
  for (const FitCallbackPtr& callback : arguments.callbacks) {
    if (dynamic_cast<const EarlyStopping*>(callback.get()) == nullptr) continue;
    stopping += (stopping.empty() ? "" : ", ") + callback->kind();
  }
  facts.push_back(stopping.empty() ? "no EarlyStopping" : stopping);
  std::string lines;
  for (const std::string& fact : facts) lines += fact + "\n";
  return lines;
}

}  // namespace

Samples::Batch& batch_of_rank(const GraphState& state, Samples& samples, std::int64_t first,
                              std::int64_t rows) {
  if (state.ranks == nullptr) return samples.batch(first, rows);
  const distributed::Shard own =
      distributed::shard_of(rows, state.ranks->rank(), state.ranks->size());
  Samples::Batch& batch =
      own.rows == 0 ? samples.batch(first, 1) : samples.batch(first + own.before, own.rows);
  batch.global = {own.before, own.rows, rows};
  return batch;
}

void check_batch_of_ranks(GraphState& state, std::int64_t rows) {
  const int ranks = count_of_ranks(state);
  // Those of the first rank and of the last one, which may have none and takes part with one.
  for (const int rank : {0, ranks - 1}) {
    const std::int64_t own = distributed::shard_of(rows, rank, ranks).rows;
    if (rows == 0) continue;
    state.current_executor("fit")->check_batch(std::max<std::int64_t>(own, 1));
  }
}

FitArguments arguments_of_rank(const GraphState& state, const FitArguments& arguments) {
  FitArguments result = arguments;
  if (state.ranks == nullptr || state.ranks->rank() == 0) return result;
  for (FitCallbackPtr& callback : result.callbacks) {
    if (dynamic_cast<const EarlyStopping*>(callback.get()) != nullptr) continue;
    callback = std::make_shared<AskedElsewhere>(callback);
  }
  if (result.on_epoch) result.on_epoch = [](const Epoch&) { return true; };
  if (result.on_nonfinite) result.on_nonfinite = [](const std::string&) {};
  result.on_missing_file = {};
  result.on_step = {};
  return result;
}

std::vector<const Checkpoint*> checkpoints_among(const std::vector<FitCallbackPtr>& callbacks) {
  std::vector<const Checkpoint*> files;
  for (const FitCallbackPtr& callback : callbacks) {
    const auto* const elsewhere = dynamic_cast<const AskedElsewhere*>(callback.get());
    const FitCallback& there = elsewhere != nullptr ? elsewhere->there() : *callback;
    if (const auto* const file = dynamic_cast<const Checkpoint*>(&there)) files.push_back(file);
  }
  return files;
}

void check_whole_steps(const GraphState& state, const std::vector<const Checkpoint*>& files,
                       std::int64_t epoch) {
  if (state.ranks == nullptr) return;
  const auto check = [&](const char* where, std::int64_t steps) {
    if (steps % state.micro_batches == 0) return;
    throw InvalidArgument("[fit] expected a Checkpoint over several ranks behind whole groups of " +
                          std::to_string(state.micro_batches) + " micro-batches but got one " +
                          where + std::to_string(steps) +
                          "; choose a batch size or every_steps that fit");
  };
  for (const Checkpoint* file : files) {
    check("behind an epoch of ", epoch);
    check("every ", file->every_steps());
  }
}

void by_first_rank(GraphState& state, const std::function<void()>& work) {
  if (state.buffer_parts == nullptr) return work();
  distributed::RankGuard guard(state.ranks.get());
  if (state.ranks->rank() != 0) {
    work();
    while (attended(state) == Attended::copies_state) give_parts(state);
  } else {
    state.is_attended = true;
    try {
      work();
    } catch (...) {
      state.is_attended = false;
      throw;
    }
    state.is_attended = false;
    attended(state);
  }
  guard.done();
}

bool is_agreed(const GraphState& state, bool own) {
  if (state.ranks == nullptr) return own;
  double against = own ? 0 : 1;
  state.ranks->add({&against, 1});
  return against == 0;
}

void take_from_first_rank(const GraphState& state, std::int64_t& ended, Optimizer* optimizer) {
  if (state.ranks == nullptr) return;
  std::array<double, 2> numbers{static_cast<double>(ended), 0};
  if (optimizer != nullptr) numbers[1] = static_cast<double>(optimizer->learning_rate());
  state.ranks->broadcast(std::as_writable_bytes(std::span(numbers)));
  ended = numbers[0] == 0 ? 0 : 1;
  if (optimizer == nullptr || state.ranks->rank() == 0) return;
  const auto rate = static_cast<float>(numbers[1]);
  if (rate != optimizer->learning_rate()) optimizer->set_learning_rate(rate);
}

std::string text_of_metrics(const std::vector<std::string>& metrics) {
  std::string text = "metrics=[";
  for (const std::string& name : metrics) text += (text.back() == '[' ? "" : ", ") + name;
  return text + "]";
}

bool begin_over_ranks(const TrainingGraph& graph, GraphState& state, const FitPlace& place,
                      const FitArguments& arguments, const std::function<bool()>& prepare) {
  if (state.ranks == nullptr) return prepare();
  bool is_to_run = true;
  std::uint64_t digest = 0;
  state.ranks->wait_for_steps();
  distributed::begin_together(state.ranks.get(), "fit", [&] {
    is_to_run = prepare();
    if (!is_to_run) return std::string("a fit that is over");
    digest = digest_of_parameters(graph, state);
    return facts_of(state, place, arguments);
  });
  if (is_to_run) check_same_parameters(state, digest);
  return is_to_run;
}

}  // namespace traingraph
