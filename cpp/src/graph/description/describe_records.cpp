// What graphs tell of themselves: memory plans, profiles, epochs and checks of gradients.
#include <functional>

#include <traingraph/check_gradients.h>
#include <traingraph/describe.h>
#include <traingraph/fit.h>

#include "ir/number_text.h"

namespace traingraph {
namespace {

std::string microseconds(double seconds) { return short_text(seconds * 1e6) + " us"; }

}  // namespace

// --- memory --------------------------------------------------------------------------------------

const ClassDescription& MemoryPlan::class_description() {
  static const ClassDescription description =
      Describing<MemoryPlan>("MemoryPlan", "The device memory of one compiled graph.")
          .recorded("entries", &MemoryPlan::entries, "The values.")
          .recorded("recomputed", &MemoryPlan::recomputed,
                    "The values that the gradient pass recomputes for a memory limit, with the "
                    "bytes that "
                    "are free in between.")
          .recorded("arena_bytes", &MemoryPlan::arena_bytes,
                    "Saved, gradient, transient and workspace memory, shared by reuse.")
          .recorded("persistent_bytes", &MemoryPlan::persistent_bytes,
                    "Parameters, moments, running statistics, constants.")
          .recorded("staging_bytes", &MemoryPlan::staging_bytes,
                    "Copies of inputs that could not be used in place.")
          .recorded("exchange_bytes", &MemoryPlan::exchange_bytes,
                    "Tensors and gradients for linked graphs.")
          .recorded("total_bytes", &MemoryPlan::total_bytes,
                    "The sum of arena, persistent, staging and exchange bytes.")
          .recorded("library_bytes", &MemoryPlan::library_bytes,
                    "Memory that libraries hold on their own, as far as they report it.")
          .recorded("context_bytes", &MemoryPlan::context_bytes,
                    "Memory that a GPU's context and libraries hold for all graphs, measured.")
          .is_record()
          .compared([](const MemoryPlan& plan) { return plan.total_bytes; })
          .str(&MemoryPlan::to_string)
          .repr([](const MemoryPlan& plan) {
            return "of " + std::to_string(plan.total_bytes) + " bytes";
          });
  return description;
}

const ClassDescription& MemoryPlan::Entry::class_description() {
  static const ClassDescription description =
      Describing<Entry>("MemoryPlan.Entry", "One value of a plan.")
          .recorded("name", &Entry::name, "The tensor or operation, with its layer.")
          .recorded("kind", &Entry::kind,
                    "bound, persistent, saved, gradient, exchange, transient or workspace; of what "
                    "is computed again: recomputed.")
          .recorded("bytes", &Entry::bytes, "Units: bytes.")
          .is_record()
          .compared([](const Entry& entry) { return entry.bytes; })
          .repr([](const Entry& entry) {
            return "'" + entry.name + "' " + entry.kind + " " + std::to_string(entry.bytes) +
                   " bytes";
          });
  return description;
}

// --- time ----------------------------------------------------------------------------------------

const ClassDescription& Profile::class_description() {
  static const ClassDescription description =
      Describing<Profile>("Profile", "The time of each op in one execution.")
          .property("layers", &Profile::layers,
                    "Times summed by layer, in order of first appearance.")
          .function("table", &Profile::table, "The layers as text, times in microseconds.")
          .function("chrome_trace", &Profile::chrome_trace,
                    "The entries as JSON for chrome://tracing and Perfetto.")
          .recorded("entries", &Profile::entries, "The ops, in the order of running.")
          .recorded("seconds", &Profile::seconds,
                    "The time of the whole execution. Units: seconds.")
          .is_record()
          .compared([](const Profile& profile) { return profile.entries.size(); })
          .str(&Profile::table)
          .repr([](const Profile& profile) {
            return "of " + std::to_string(profile.entries.size()) + " ops, " +
                   microseconds(profile.seconds);
          });
  return description;
}

const ClassDescription& Profile::Entry::class_description() {
  static const ClassDescription description =
      Describing<Entry>("Profile.Entry", "One op that ran.")
          .recorded("layer", &Entry::layer, "The layer it was written by; may be empty.")
          .recorded("phase", &Entry::phase, "forward, gradient or update.")
          .recorded("op", &Entry::op, "The op's name.")
          .recorded("start", &Entry::start, "Since the first op. Units: seconds.")
          .recorded("seconds", &Entry::seconds, "Units: seconds.")
          .is_record()
          .compared([](const Entry& entry) { return std::hash<double>{}(entry.start); })
          .repr([](const Entry& entry) {
            return entry.op + " " + entry.phase + " of '" + entry.layer + "' " +
                   microseconds(entry.seconds);
          });
  return description;
}

const ClassDescription& Profile::Layer::class_description() {
  using Times = Profile::Layer;
  static const ClassDescription description =
      Describing<Times>("Profile.Layer", "One layer's ops, summed.")
          .property("seconds", &Times::seconds, "All three phases. Units: seconds.")
          .recorded("layer", &Times::layer, "The layer; empty for ops of none.")
          .recorded("forward", &Times::forward, "Units: seconds.")
          .recorded("gradient", &Times::gradient, "Units: seconds.")
          .recorded("update", &Times::update, "Units: seconds.")
          .is_record()
          .compared([](const Times& times) { return std::hash<std::string>{}(times.layer); })
          .repr([](const Times& times) {
            return "'" + times.layer + "' " + microseconds(times.seconds());
          });
  return description;
}

// --- training ------------------------------------------------------------------------------------

const ClassDescription& Epoch::class_description() {
  static const ClassDescription description =
      Describing<Epoch>("Epoch", "One pass over all samples, as it went.")
          .recorded("number", &Epoch::number, "Counts from 1, or from first_epoch.")
          .recorded("loss", &Epoch::loss,
                    "What the loss's reduction gives over the epoch; for reduction none the mean.")
          .recorded("steps", &Epoch::steps, "Batches.")
          .recorded("seconds", &Epoch::seconds, "Units: seconds.")
          .recorded("shuffle_seed", &Epoch::shuffle_seed,
                    "What the order of the samples followed from; None for the order given.")
          .recorded("learning_rate", &Epoch::learning_rate, "Of the last step.")
          .recorded("validation", &Epoch::validation,
                    "The evaluation after the epoch, or None without one.")
          .is_record()
          .compared([](const Epoch& epoch) { return static_cast<std::size_t>(epoch.number); })
          .repr([](const Epoch& epoch) {
            const std::string text =
                std::to_string(epoch.number) + " loss " + short_text(epoch.loss);
            return epoch.validation
                       ? text + ", validation loss " + short_text(epoch.validation->loss)
                       : text;
          });
  return description;
}

const ClassDescription& Evaluation::class_description() {
  static const ClassDescription description =
      Describing<Evaluation>("Evaluation", "Loss and accuracy.")
          .recorded("loss", &Evaluation::loss, "As Epoch.loss, in inference mode.")
          .recorded("accuracy", &Evaluation::accuracy,
                    "The share of right classes; None for a loss that is no classifier's.")
          .recorded("metrics", &Evaluation::metrics,
                    "Those that were asked for, by name: a number, or the matrix of confusion, "
                    "whose rows are the labels' classes and columns the predicted ones.")
          .is_record()
          .compared([](const Evaluation& evaluation) { return evaluation.metrics.size(); })
          .repr([](const Evaluation& evaluation) {
            std::string text = "loss " + short_text(evaluation.loss);
            if (evaluation.accuracy) text += ", accuracy " + short_text(*evaluation.accuracy);
            for (const auto& [name, value] : evaluation.metrics) {
              if (name == "accuracy") continue;
              text += ", " + name +
                      (value.shape.empty() ? " " + short_text(value.numbers.front())
                                           : " of " + std::to_string(value.shape[0]) + " classes");
            }
            return text;
          });
  return description;
}

// --- gradients -----------------------------------------------------------------------------------

const ClassDescription& GradientRow::class_description() {
  using Row = GradientRow;
  static const ClassDescription description =
      Describing<Row>("GradientRow", "The gradient of one parameter beside finite differences.")
          .recorded("layer", &Row::layer, "The label of the first layer that reads it.")
          .recorded(
              "parameter", &Row::parameter,
              "The parameter's name in its layer, or the label of a tensor that no layer holds.")
          .recorded("worst_element", &Row::worst_element,
                    "Indices of the largest error; None where a direction has it, and where "
                    "nothing was compared.")
          .recorded("error", &Row::error,
                    "The error of the worst element, relative to the largest element.")
          .recorded("bound", &Row::bound, "The largest error that is accepted.")
          .recorded("gradient", &Row::gradient, "The graph's gradient of the worst element.")
          .recorded("difference", &Row::difference, "The finite difference of the worst element.")
          .recorded("compared", &Row::compared, "Elements and directions.")
          .recorded("excluded", &Row::excluded, "Others, at a kink.")
          .recorded("ok", &Row::ok, "Something was compared, and no error is above the bound.")
          .is_record()
          .compared([](const Row& row) { return std::hash<std::string>{}(row.parameter); })
          .repr([](const Row& row) {
            return "'" + row.layer + "' " + row.parameter + (row.ok ? " ok" : " wrong");
          });
  return description;
}

const ClassDescription& GradientCheck::class_description() {
  using Check = GradientCheck;
  static const ClassDescription description =
      Describing<Check>("GradientCheck", "Gradients beside differences.")
          .recorded("ok", &Check::ok, "All rows are.")
          .recorded("rows", &Check::rows,
                    "One for each trained parameter, in the order of first use.")
          .is_record()
          .compared([](const Check& check) { return check.rows.size(); })
          .str(&Check::to_string)
          .repr([](const Check& check) {
            return "of " + std::to_string(check.rows.size()) +
                   (check.ok ? " parameters, ok" : " parameters, not ok");
          });
  return description;
}

}  // namespace traingraph
