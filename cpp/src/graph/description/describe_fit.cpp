// What a fit is given: schedules and callbacks.
#include <traingraph/describe.h>
#include <traingraph/fit.h>
#include <traingraph/message_text.h>

#include "ir/number_text.h"

namespace traingraph {
namespace {

std::string quoted(const std::string& text) { return "'" + shortened(text, 500) + "'"; }
const char* text_of(bool value) { return value ? "True" : "False"; }

}  // namespace

const ClassDescription& RateSchedule::class_description() {
  static const ClassDescription description =
      Describing<RateSchedule>("RateSchedule",
                               "A learning rate for each step. Steps are counted from 0, by the "
                               "updates that the optimizer has made.")
          .class_function("constant", &RateSchedule::constant, "One rate.", {{"rate", "The rate."}})
          .class_function("steps", &RateSchedule::steps,
                          "rate * factor ** (step // every). Errors: ValueError for a number that "
                          "is not finite, or every below 1.",
                          {{"rate", "The first rate."},
                           {"every", "Steps of one rate."},
                           {"factor", "From one rate to the next.", 0.1}})
          .class_function("exponential", &RateSchedule::exponential,
                          "rate * factor ** (step / every). Errors: ValueError for a factor that "
                          "is not above 0.",
                          {{"rate", "The first rate."},
                           {"factor", "From one rate to the next."},
                           {"every", "Steps for one factor.", std::int64_t{1}}})
          .class_function("cosine", &RateSchedule::cosine,
                          "Half a cosine from rate to last, which stays. Errors: ValueError for "
                          "steps below 1.",
                          {{"rate", "The first rate."},
                           {"steps", "From one to the other."},
                           {"last", "The last rate.", 0.0}})
          .class_function("warm_up", &RateSchedule::warm_up,
                          "A line from rate / steps to rate, which stays. Errors: ValueError for "
                          "steps below 1.",
                          {{"rate", "The last rate."}, {"steps", "Until it is reached."}})
          .class_function("one_cycle", &RateSchedule::one_cycle,
                          "Half a cosine up from most / 25, then one down to most / 250000. "
                          "Errors: ValueError for fewer than 3 steps. Source: Smith and Topin, "
                          "Super-Convergence, 2017; the numbers are PyTorch's.",
                          {{"most", "The largest rate."},
                           {"steps", "Of the whole cycle."},
                           {"rising", "The share of steps on the way up.", 0.3}})
          .class_function("joined", &RateSchedule::joined,
                          "One schedule after another, each counted from 0 again. Errors: "
                          "ValueError unless there is a boundary between each two, and they rise.",
                          {{"schedules", "In their order."},
                           {"boundaries", "The first step of each one behind the first."}})
          .function("__call__",
                    [](const RateSchedule& self, std::int64_t step) { return self(step); },
                    "The rate of a step. Errors: ValueError for a step below 0.",
                    {{"step", "Counted from 0."}})
          .not_copied()
          .repr(&RateSchedule::text);
  return description;
}

const ClassDescription& FitCallback::class_description() {
  static const ClassDescription description =
      Describing<FitCallback, FitCallback>("FitCallback", "What a fit asks after each epoch.")
          .not_copied();
  return description;
}

const ClassDescription& EarlyStopping::class_description() {
  static const ClassDescription description =
      Describing<EarlyStopping, FitCallback>("EarlyStopping",
                                             "Ends a fit whose validation no longer gets better.")
          .argument("patience", &EarlyStopping::patience,
                    "So many epochs that are no better end it.")
          .in(kOneOrMore)
          .argument("min_delta", &EarlyStopping::min_delta,
                    "What is better by no more than this counts as no better.", 0.0)
          .in(kNotNegative)
          .argument("monitor", &EarlyStopping::monitor,
                    "'loss', 'accuracy' or a metric of the fit, of the validation; a loss without "
                    "a validation of the epoch. NaN is no better than anything.",
                    std::string("loss"))
          .argument("restores_best", &EarlyStopping::restores_best,
                    "Whether the parameters of the best epoch stay; those of the last one, where "
                    "none was a number.",
                    true)
          .made_of<std::int64_t, double, std::string, bool>(
              "A loss or an error is better lower, other metrics are better higher. Errors: "
              "ValueError, also of a fit whose epochs have not the number.")
          .property("best", &EarlyStopping::best, "The best number of the last fit, or None.")
          .property("best_epoch", &EarlyStopping::best_epoch, "Its epoch; 0 before there is one.")
          .repr([](const EarlyStopping& self) {
            return "patience=" + std::to_string(self.patience()) +
                   " min_delta=" + short_text(self.min_delta()) +
                   " monitor=" + quoted(self.monitor()) +
                   " restores_best=" + text_of(self.restores_best());
          });
  return description;
}

const ClassDescription& CSVLog::class_description() {
  static const ClassDescription description =
      Describing<CSVLog, FitCallback>("CSVLog", "Writes a row per epoch into a file.")
          .takes({argument<FilePath>("path", "The file."),
                  argument("appends", false,
                           "Whether rows that are there stay; their columns have to be the same.")})
          .made_by(
              "Columns: epoch, loss, seconds, learning_rate, and those of the validation, each "
              "behind validation_: loss, accuracy, metrics of one number. Errors: of the fit, "
              "before its "
              "first step, ValueError for a file of other columns and FileError.",
              [](const Given& given) {
                return std::make_shared<CSVLog>(given.get<FilePath>("path").bytes,
                                                given.get<bool>("appends"));
              })
          .property("path", &CSVLog::path, "The file.")
          .property("appends", &CSVLog::appends, "Whether rows that are there stay.")
          .not_copied()
          .repr([](const CSVLog& self) {
            return "path=" + quoted(self.path()) + " appends=" + text_of(self.appends());
          });
  return description;
}

const ClassDescription& Checkpoint::class_description() {
  static const ClassDescription description =
      Describing<Checkpoint, FitCallback>("Checkpoint",
                                          "Saves the graph with the place of the fit.")
          .takes({argument<FilePath>("path", "The file, which is replaced."),
                  argument("every_steps", std::int64_t{0},
                           "Also after each so many steps of an epoch; 0: after epochs alone.",
                           &kLimit),
                  argument("metadata", Metadata(), "Texts by name, which load() returns.")})
          .made_by(
              "After each epoch, when all callbacks have heard of it. A fit with resume= goes on "
              "from the file. Errors: ValueError; of the fit FileError, for a path that cannot be "
              "written before its first step.",
              [](const Given& given) {
                return std::make_shared<Checkpoint>(given.get<FilePath>("path").bytes,
                                                    given.get<std::int64_t>("every_steps"),
                                                    given.get<Metadata>("metadata"));
              })
          .property("path", &Checkpoint::path, "The file.")
          .property("every_steps", &Checkpoint::every_steps,
                    "Steps between two saves; 0: an epoch.")
          .property("metadata", &Checkpoint::metadata, "Texts by name.")
          .not_copied()
          .repr([](const Checkpoint& self) {
            std::string names;
            for (const auto& [name, text] : self.metadata()) names += " " + quoted(name);
            return "path=" + quoted(self.path()) +
                   " every_steps=" + std::to_string(self.every_steps()) +
                   (names.empty() ? "" : " metadata of" + shortened(names, kMostShown));
          });
  return description;
}

}  // namespace traingraph
