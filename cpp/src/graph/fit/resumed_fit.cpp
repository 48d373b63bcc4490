// Finds where a fit stands that goes on, and gives its callbacks what those before them remember.
#include "graph/fit/resumed_fit.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <traingraph/errors.h>

#include "graph/run/executor.h"
#include "graph/state/load_checkpoint.h"

namespace traingraph {
namespace {

constexpr const char* kOnEpoch = "on_epoch";

// "EarlyStopping(monitor='loss'), mine"
std::string kinds_with_state(const std::vector<PlacedCallback>& callbacks) {
  std::string text;
  for (std::size_t k = 0; k < callbacks.size(); ++k) {
    if (callbacks[k].state.empty()) continue;
    const std::string& kind = callbacks[k].kind;
    text += text.empty() ? "" : ", ";
    text += kind.empty() ? "callback " + std::to_string(k + 1) : kind;
  }
  return text.empty() ? "none" : text;
}

// From the root, without links and dots, as far as they can be followed.
std::filesystem::path whole_path(const std::string& path) {
  constexpr int kMostLinks = 40;
  std::error_code error;
  std::filesystem::path whole = std::filesystem::absolute(path, error);
  // A link to what is not there yet is followed, too.
  for (int links = 0; !error && links < kMostLinks; ++links) {
    const std::filesystem::path target = std::filesystem::read_symlink(whole, error);
    if (error) break;
    whole = whole.parent_path() / target;
  }
  std::filesystem::path canonical = std::filesystem::weakly_canonical(whole, error);
  return error ? whole : canonical;
}

void tell_end(const EndedFit& ended, FitProgress& progress) {
  progress.ended_by = ended.by;
  if (progress.epoch == 0) progress.epoch = static_cast<int>(ended.epoch);
}

void check_micro_batches(const GraphState& state, const FitPlace& place) {
  const std::lock_guard lock(structure());
  if (place.micro_batches == 0 || place.micro_batches == state.micro_batches) return;
  throw InvalidArgument("[fit] expected micro_batches=" + std::to_string(place.micro_batches) +
                        ", as the fit to go on with has, but got " +
                        std::to_string(state.micro_batches));
}

// As of an EarlyStopping at the fit's end.
[[noreturn]] void refuse_other_weights(const EndedFit& ended) {
  throw InvalidArgument(
      "[fit] expected a graph with the last weights of the fit to go on with but other ones, as "
      "the best of an EarlyStopping, were put back when it ended after epoch " +
      std::to_string(ended.epoch) +
      "; pass the path of its Checkpoint as resume, or, to train on from these weights, "
      "first_epoch=" +
      std::to_string(ended.epoch + 1) + " without resume");
}

class Matching {
 public:
  Matching(const std::vector<PlacedCallback>& before, std::vector<PlacedCallback>& now)
      : before_(before), now_(now), is_taken_(before.size()) {}

  // Whether all that keep state have found one another.
  bool run() {
    const bool are_named = std::ranges::none_of(
        before_, [](const PlacedCallback& callback) { return callback.kind.empty(); });
    bool is_whole = true;
    for (std::size_t k = 0; k < now_.size(); ++k) {
      const std::size_t found = are_named ? of_kind(now_[k].kind) : unnamed(k);
      if (found == before_.size()) {
        is_whole = is_whole && now_[k].state.empty();
        continue;
      }
      is_taken_[found] = true;
      now_[k].state = before_[found].state;
      now_[k].has_heard = before_[found].has_heard;
    }
    for (std::size_t k = 0; k < before_.size(); ++k) {
      is_whole = is_whole && (is_taken_[k] || before_[k].state.empty());
    }
    return is_whole;
  }

 private:
  std::size_t of_kind(const std::string& kind) const {
    std::size_t k = 0;
    while (k < before_.size() && (is_taken_[k] || before_[k].kind != kind)) ++k;
    return k;
  }

  // In files without kinds: those with state in their order, the others by their places.
  std::size_t unnamed(std::size_t place) const {
    if (now_[place].state.empty()) {
      const bool is_there = place < before_.size() && before_[place].state.empty();
      return is_there ? place : before_.size();
    }
    std::size_t k = 0;
    while (k < before_.size() && (is_taken_[k] || before_[k].state.empty())) ++k;
    return k;
  }

  const std::vector<PlacedCallback>& before_;
  std::vector<PlacedCallback>& now_;  // with the state of their own
  std::vector<bool> is_taken_;
};

}  // namespace

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

void end_fit(GraphState& state, const FitPlace& place, FitProgress& progress) {
  EndedFit ended{place.epoch - 1, place.ended == 0, "", passes_now(state)};
  for (const std::string& kind : place.ended_by) ended.by += (ended.by.empty() ? "" : ", ") + kind;
  if (!ended.is_whole && ended.by.empty()) ended.by = "a callback";  // of a file that does not tell
  tell_end(ended, progress);
  if (ended.is_whole) ended.place = state.fit_place->get();
  state.fit_place->end(std::move(ended));
}

bool is_over(GraphState& state, const FitArguments& arguments, FitProgress& progress) {
  if (!arguments.resume || !arguments.resume->empty() || state.fit_place->get()) return false;
  const std::optional<EndedFit> ended = state.fit_place->ended();
  if (!ended || ended->passes != passes_now(state)) return false;
  if (ended->is_whole && arguments.epochs > ended->epoch) return false;
  tell_end(*ended, progress);
  return true;
}

void tell_place(const FitPlace& place, int epochs, FitProgress& progress) {
  const bool is_over = place.steps == 0 && (place.ended != 0 || place.epoch > epochs);
  progress.epoch = static_cast<int>(place.epoch) - (is_over ? 1 : 0);
  progress.steps = place.steps;
}

bool is_one_file(const std::string& first, const std::string& second) {
  std::error_code error;
  return whole_path(first) == whole_path(second) ||
         std::filesystem::equivalent(first, second, error);
}

bool is_there_to_go_on(const std::string& path) {
  std::error_code error;
  return path.empty() ||
         std::filesystem::status(path, error).type() != std::filesystem::file_type::not_found;
}

FitPlacePtr loaded_place(GraphState& state, const std::string& path,
                         const std::function<void(const FitPlace&)>& check) {
  if (!path.empty()) {
    load_checkpoint(state, path, [&](const FitPlace* place) {
      if (place != nullptr) {
        check_micro_batches(state, *place);
        return check(*place);
      }
      throw InvalidArgument("[fit] expected a checkpoint that was saved within a fit but '" + path +
                            "' was not, or a later save has replaced it; load it, and fit with "
                            "first_epoch");
    });
    return state.fit_place->get();
  }
  FitPlacePtr kept = state.fit_place->get();
  if (kept == nullptr) {
    const std::optional<EndedFit> ended = state.fit_place->ended();
    const bool is_there = ended && ended->passes == passes_now(state);
    if (is_there && ended->is_whole && ended->place == nullptr) refuse_other_weights(*ended);
    if (is_there) kept = ended->place;
  }
  if (kept == nullptr) {
    throw InvalidArgument(
        "[fit] expected a graph that stands in a fit to go on with but it stands in none; after a "
        "call that was interrupted before its first step, make that call again, with its path; for "
        "more epochs after one that has ended, first_epoch is the number of the next");
  }
  check_micro_batches(state, *kept);
  if (const std::int64_t passes = passes_now(state); passes != kept->passes) {
    throw InvalidArgument("[fit] expected the graph as its fit has left it, after " +
                          std::to_string(kept->passes) + " executions, but got one after " +
                          std::to_string(passes));
  }
  check(*kept);
  return kept;
}

void restore_rate(const FitPlace& place, const std::string& path, Optimizer* optimizer) {
  if (optimizer == nullptr || !place.learning_rate) return;
  optimizer->set_learning_rate(path.empty() ? *place.rate_now(optimizer) : *place.learning_rate);
}

FitPlacePtr taken_place(GraphState& state, const Optimizer* optimizer) {
  const FitPlacePtr kept = state.fit_place->get();
  state.fit_place->set(nullptr);
  if (kept == nullptr) return nullptr;
  FitPlace place = *kept;
  place.learning_rate = kept->rate_now(optimizer);
  return std::make_shared<const FitPlace>(std::move(place));
}

bool is_put_back(GraphState& state, const FitPlacePtr& taken, const FitPlace& now) {
  if (taken == nullptr || taken->passes != now.passes) return false;
  FitPlace place = *taken;
  place.optimizer_rate = now.optimizer_rate;  // a schedule's, perhaps
  state.fit_place->set(std::make_shared<const FitPlace>(std::move(place)));
  return true;
}

void warn_of_missing_file(const FitArguments& arguments,
                          const std::vector<const Checkpoint*>& files) {
  if (!arguments.resume || !arguments.on_missing_file) return;
  const std::string& path = *arguments.resume;
  const auto is_it = [&path](const Checkpoint* file) { return is_one_file(path, file->path()); };
  if (std::ranges::any_of(files, is_it)) return;
  arguments.on_missing_file("the fit begins anew: no file '" + path + "' to resume, and " +
                            (files.empty()
                                 ? "no Checkpoint writes it"
                                 : "the Checkpoint writes '" + files.front()->path() + "'"));
}

void take_states(const Optimizer* optimizer, const std::vector<FitCallbackPtr>& callbacks,
                 FitPlace& place) {
  place.learning_rate = std::nullopt;
  if (optimizer != nullptr) place.learning_rate = optimizer->learning_rate();
  place.optimizer_rate = place.learning_rate;
  for (std::size_t k = 0; k < callbacks.size(); ++k) {
    place.callbacks[k].state = callbacks[k]->copy_state();
  }
}

void move_to_next_epoch(FitPlace& place) {
  ++place.epoch;
  ++place.order;
  place.steps = place.loss_count = 0;
  place.loss_sum = 0;
  place.epoch_rate = std::nullopt;
  for (PlacedCallback& callback : place.callbacks) callback.has_heard = false;
}

std::vector<PlacedCallback> placed_callbacks(const FitArguments& arguments) {
  std::vector<PlacedCallback> callbacks;
  for (const FitCallbackPtr& callback : arguments.callbacks) {
    callbacks.push_back({.kind = callback->kind()});
  }
  if (arguments.on_epoch) callbacks.push_back({.kind = kOnEpoch});
  return callbacks;
}

std::vector<PlacedCallback> resumed_callbacks(const FitPlace& before,
                                              const FitArguments& arguments) {
  std::vector<PlacedCallback> callbacks = placed_callbacks(arguments);
  for (std::size_t k = 0; k < arguments.callbacks.size(); ++k) {
    callbacks[k].state = arguments.callbacks[k]->copy_state();
  }
  const std::string given = kinds_with_state(callbacks);
  if (Matching(before.callbacks, callbacks).run()) return callbacks;
  throw InvalidArgument(
      "[fit] expected callbacks that keep state: " + kinds_with_state(before.callbacks) +
      ", as the fit to go on with has, but got " + given +
      "; pass the same, at any places among the others, or load the state and fit with "
      "first_epoch=" +
      std::to_string(before.epoch) + ", which begins theirs anew");
}

}  // namespace traingraph
