// Training, epoch by epoch.
#include <traingraph/fit.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include <traingraph/errors.h>
#include <traingraph/loss.h>

#include "graph/fit/batch_source.h"
#include "graph/fit/evaluate.h"
#include "graph/fit/fit_checks.h"
#include "graph/fit/given_samples.h"
#include "graph/fit/metrics.h"
#include "graph/fit/prepared_batches.h"
#include "graph/fit/steps_in_flight.h"
#include "graph/run/executor.h"

namespace traingraph {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMostRows = std::numeric_limits<std::int64_t>::max();

// A seed that a checkpoint has as a negative number could not be given to a fit.
constexpr std::uint64_t kMostSeed = std::numeric_limits<std::int64_t>::max();

// Executions that have trained, once all that were submitted are done.
std::int64_t passes_now(GraphState& state) {
  std::int64_t passes = 0;
  const std::shared_ptr<Executor> executor = state.current_executor("fit");
  executor->run_between([&] {
    const std::lock_guard lock(structure());
    BegunStepPtr begun;
    if (state.micro_batches > 1) begun = executor->begun_step(state.snapshot()->changes);
    passes = passes_of(*state.forward_count, state.micro_batches, begun ? begun->summed : 0);
  });
  return passes;
}

// Of the next step: the time steps of those that were submitted are counted.
void set_rate(Optimizer& optimizer, const RateSchedule& schedule) {
  optimizer.set_learning_rate(static_cast<float>(schedule(optimizer.time_step() - 1)));
}

class Fit {
 public:
  Fit(TrainingGraph& graph, GraphState& state, const FitArguments& arguments)
      : graph_(graph),
        state_(state),
        arguments_(arguments),
        progress_(arguments.progress != nullptr ? *arguments.progress : own_progress_) {}

  std::vector<Epoch> run() {
    check(arguments_);
    progress_ = {};
    loss_ = &loss_of(state_, kFit).descriptor();
    take_samples();
    take_validation();
    if (arguments_.schedule && graph_.optimizer() == nullptr) {
      throw InvalidArgument("[fit] expected an optimizer for the schedule but the graph has none");
    }
    begin();
    while (place_.ended == 0 && place_.epoch <= arguments_.epochs) {
      progress_.epoch = static_cast<int>(place_.epoch);
      Epoch epoch;
      if (!train(epoch) || !evaluate(epoch)) return progress_.epochs;
      ask(epoch);
      go_to_next_epoch();
    }
    for (const FitCallbackPtr& callback : arguments_.callbacks) callback->end(graph_);
    state_.fit_place->set(nullptr);
    return progress_.epochs;
  }

 private:
  void take_samples() {
    if (arguments_.next_batch) {
      progress_.all_steps = arguments_.batch_count;
      source_ = std::make_unique<PreparedBatches>(state_, arguments_);
      validation_batch_ = arguments_.validation ? batch_size_of(state_, 0, kMostRows, kFit) : 0;
      return;
    }
    const SampleData data = data_of(arguments_);
    Samples samples = samples_of(state_, data, true, kFit);
    const std::int64_t batch = batch_size_of(state_, arguments_.batch_size, samples.count(), kFit);
    const std::int64_t rest = samples.count() % batch;
    if (rest != 0) state_.current_executor("fit")->check_batch(rest);
    progress_.all_steps = (samples.count() + batch - 1) / batch;
    place_.samples = samples.count();
    place_.batch_size = validation_batch_ = batch;
    take_order();
    if (place_.shuffle_seed) {
      check_all_move(state_, data, "shuffled; pass them, or shuffle=False");
    } else {
      check_all_are_sorted(state_, data, samples, batch);
    }
    source_ = std::make_unique<ArrayBatches>(std::move(samples), batch);
  }

  // Without a seed of its own the graph says how many epochs its forward passes are: a checkpoint
  // has both.
  void take_order() {
    place_.order = arguments_.first_epoch;
    place_.shuffle_seed = arguments_.shuffle_seed;
    if (!arguments_.shuffle) {
      if (!arguments_.shuffle_seed) return;
      throw InvalidArgument("[fit] expected no shuffle_seed where shuffle is off but got " +
                            std::to_string(*arguments_.shuffle_seed));
    }
    if (arguments_.shuffle_seed) return;
    state_.current_executor("fit")->run_between([&] {
      const std::lock_guard lock(structure());
      place_.shuffle_seed = state_.random_seed & kMostSeed;
      place_.order = *state_.forward_count * state_.micro_batches / progress_.all_steps + 1;
    });
  }

  void take_validation() {
    if (arguments_.validation) {
      try {
        validation_ = samples_of(state_, *arguments_.validation, true, kFit);
        validation_batch_ = std::min(validation_batch_, validation_->count());
        check_all_are_sorted(state_, *arguments_.validation, *validation_, validation_batch_);
      } catch (Error& error) {
        error.add(" in the validation");
        throw;
      }
    }
    for (const std::string& name : arguments_.metrics) make_metric(name, loss_->type, kFit);
    check_monitors(arguments_, loss_->type);
  }

  void begin() {
    for (const FitCallbackPtr& callback : arguments_.callbacks) {
      if (auto* const file = dynamic_cast<Checkpoint*>(callback.get()))
        checkpoints_.push_back(file);
    }
    place_.epoch = arguments_.first_epoch;
    if (resume()) return;
    for (const FitCallbackPtr& callback : arguments_.callbacks) callback->begin(graph_);
    state_.fit_place->set(nullptr);
  }

  // Whether there is a fit to go on with.
  bool resume() {
    if (!arguments_.resume) return false;
    const std::string& path = *arguments_.resume;
    if (!path.empty()) {
      std::error_code error;
      const auto type = std::filesystem::status(path, error).type();
      if (type == std::filesystem::file_type::not_found) return false;
      graph_.load(path);
    }
    const FitPlacePtr kept = state_.fit_place->get();
    if (kept == nullptr) {
      throw InvalidArgument(
          path.empty() ? "[fit] expected a graph that stands in a fit to go on with but it stands "
                         "in none"
                       : "[fit] expected a checkpoint that was saved within a fit but '" + path +
                             "' was not; load it, and fit with first_epoch");
    }
    if (const std::int64_t passes = passes_now(state_); passes != kept->passes) {
      throw InvalidArgument("[fit] expected the graph as its fit has left it, after " +
                            std::to_string(kept->passes) + " executions, but got one after " +
                            std::to_string(passes));
    }
    check_resumed(*kept, place_, arguments_);
    place_ = *kept;
    resume_callbacks();
    if (place_.learning_rate && graph_.optimizer() != nullptr) {
      graph_.optimizer()->set_learning_rate(*place_.learning_rate);
    }
    return true;
  }

  void resume_callbacks() {
    std::size_t taken = 0;
    for (std::size_t k = 0; k < arguments_.callbacks.size(); ++k) {
      const std::string own = std::to_string(k + 1) + ".";
      NamedData remembered;
      for (const auto& [name, data] : place_.callbacks) {
        if (name.starts_with(own)) remembered.emplace_back(name.substr(own.size()), data);
      }
      taken += remembered.size();
      const bool has_heard = static_cast<std::int64_t>(k) < place_.heard;
      arguments_.callbacks[k]->resume(graph_, static_cast<int>(place_.epoch) + (has_heard ? 1 : 0),
                                      remembered);
    }
    if (taken == place_.callbacks.size()) return;
    throw InvalidArgument("[fit] expected the callbacks of the fit to go on with but got " +
                          std::to_string(arguments_.callbacks.size()) + ", without that of its '" +
                          place_.callbacks.back().first + "'");
  }

  // Whether to go on; false: the caller has ended the fit.
  bool train(Epoch& epoch) {
    epoch.number = static_cast<int>(place_.epoch);
    epoch.shuffle_seed = place_.shuffle_seed;
    progress_.steps = place_.steps;
    std::int64_t before = 0;
    keeping_place([&] { before = passes_now(state_) - place_.steps; });
    const Backend& device = state_.current_executor("fit")->backend();
    const Clock::time_point start = Clock::now();
    StepsInFlight steps(device, arguments_,
                        LossSum(loss_->reduction, place_.loss_sum, place_.loss_count), progress_);
    bool goes_on = true;
    try {
      source_->begin(place_, device);
      goes_on = take_steps(steps);
    } catch (Error& error) {
      give_up(steps, before);
      if (!steps.found_infinite_loss() && !source_->has_named_batch()) {
        error.add(" in step " + std::to_string(progress_.steps + 1) + " of epoch " +
                  std::to_string(epoch.number));
      }
      throw;
    } catch (...) {
      give_up(steps, before);
      throw;
    }
    count(steps);
    epoch.loss = steps.loss().value();
    epoch.steps = progress_.steps;
    if (goes_on) progress_.all_steps = progress_.steps;
    epoch.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (const OptimizerPtr used = graph_.optimizer()) epoch.learning_rate = used->learning_rate();
    if (goes_on) {
      progress_.epochs.push_back(epoch);
    } else {
      keep_place();
    }
    return goes_on;
  }

  bool take_steps(StepsInFlight& steps) {
    std::int64_t submitted = place_.steps;
    while (source_->is_more()) {
      if (arguments_.goes_on && !arguments_.goes_on()) {
        steps.wait();
        return false;
      }
      Samples::Batch* const batch = source_->next();
      if (batch == nullptr) {
        steps.wait();
        return !source_->is_ended();
      }
      if (arguments_.schedule) set_rate(*graph_.optimizer(), *arguments_.schedule);
      steps.add(*state_.current_executor("fit"), *batch);
      ++submitted;
      if (!checkpoints_.empty()) save_amid(steps, submitted);
    }
    steps.wait();
    return true;
  }

  void save_amid(StepsInFlight& steps, std::int64_t submitted) {
    for (const Checkpoint* file : checkpoints_) {
      if (!file->is_due_after(submitted)) continue;
      steps.wait();
      count(steps);
      keep_place();
      file->save(graph_);
    }
  }

  bool evaluate(Epoch& epoch) {
    if (!validation_) return true;
    std::optional<Evaluation> found;
    keeping_place([&] {
      found =
          evaluate_samples(state_, *validation_,
                           {kFit, validation_batch_, arguments_.metrics, arguments_.goes_on, true});
    });
    if (found) {
      epoch.validation = progress_.epochs.back().validation = std::move(found);
      return true;
    }
    keep_place();
    return false;
  }

  void ask(const Epoch& epoch) {
    const auto hears = [this](std::int64_t position, auto&& call) {
      if (position < place_.heard) return;
      keep_place();  // of a callback that saves
      if (!call()) place_.ended = 1;
      place_.heard = position + 1;
    };
    keeping_place([&] {
      std::int64_t position = 0;
      for (const FitCallbackPtr& callback : arguments_.callbacks) {
        hears(position++, [&] { return callback->after_epoch(graph_, epoch); });
      }
      if (arguments_.on_epoch) hears(position, [&] { return arguments_.on_epoch(epoch); });
    });
  }

  void go_to_next_epoch() {
    ++place_.epoch;
    ++place_.order;
    place_.steps = place_.heard = place_.loss_count = 0;
    place_.loss_sum = 0;
    // Without callbacks nothing but what ends the next epoch needs to know.
    if (arguments_.callbacks.empty() && !arguments_.on_epoch) return;
    keep_place();
    for (const Checkpoint* file : checkpoints_) file->save(graph_);
  }

  // --- where it stands ---------------------------------------------------------------------------

  void count(const StepsInFlight& steps) {
    place_.steps = progress_.steps;
    place_.loss_sum = steps.loss().sum();
    place_.loss_count = steps.loss().count();
  }

  void keep_place() {
    place_.passes = passes_now(state_);
    place_.learning_rate = std::nullopt;
    if (const OptimizerPtr used = graph_.optimizer()) place_.learning_rate = used->learning_rate();
    place_.callbacks.clear();
    for (std::size_t k = 0; k < arguments_.callbacks.size(); ++k) {
      for (auto& [name, data] : arguments_.callbacks[k]->copy_state()) {
        place_.callbacks.emplace_back(std::to_string(k + 1) + "." + name, std::move(data));
      }
    }
    state_.fit_place->set(std::make_shared<const FitPlace>(place_));
  }

  template <class Work>
  void keeping_place(Work work) {
    try {
      work();
    } catch (...) {
      keep_place_or_none();
      throw;
    }
  }

  void give_up(StepsInFlight& steps, std::int64_t before) {
    steps.give_up();
    count(steps);
    keep_place_or_none();
    // One that was interrupted as it was waited for, or has failed after others: nobody knows.
    const FitPlacePtr kept = state_.fit_place->get();
    if (kept != nullptr && kept->passes != before + place_.steps) state_.fit_place->set(nullptr);
  }

  void keep_place_or_none() {
    try {
      keep_place();
    } catch (...) {
      state_.fit_place->set(nullptr);
    }
  }

  TrainingGraph& graph_;
  GraphState& state_;
  const FitArguments& arguments_;
  FitProgress own_progress_;
  FitProgress& progress_;
  const LossDescriptor* loss_ = nullptr;
  std::unique_ptr<BatchSource> source_;
  std::optional<Samples> validation_;
  std::int64_t validation_batch_ = 0;
  std::vector<Checkpoint*> checkpoints_;
  FitPlace place_;
};

}  // namespace

std::vector<Epoch> TrainingGraph::fit(const FitArguments& arguments) {
  return Fit(*this, *state_, arguments).run();
}

}  // namespace traingraph
