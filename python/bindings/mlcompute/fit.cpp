// Binds fit(), evaluate() and predict() with their results, Epoch and Evaluation; Ctrl-C ends each.
#include <pybind11/stl.h>

#include <chrono>

#include "bindings.h"
#include "classes/described_class.h"
#include "classes/signature.h"
#include "convert/convert.h"
#include "convert/data.h"
#include "convert/enums.h"
#include "convert/errors.h"
#include "convert/saved_arrays.h"
#include "mlcompute/fit.h"
#include "mlcompute/fit_functions.h"
#include "mlcompute/fit_samples.h"

namespace traingraph::python {
namespace {

// Lets Python's signal handlers run (Ctrl-C) now and then while the core loops.
class Signals {
 public:
  // Raises what a handler raised.
  bool checked() {
    const Clock::time_point now = Clock::now();
    if (now - last_ < std::chrono::milliseconds(20)) return true;
    last_ = now;
    check_signals();
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
};

FitArguments arguments_of(const TrainingGraph& graph, const Arguments& given) {
  FitArguments arguments;
  arguments.inputs = samples(given["inputs"], graph.inputs(), given.where("inputs"), "input");
  arguments.loss_labels =
      samples(given["labels"], graph.loss_labels(), given.where("labels"), "loss label");
  arguments.loss_label_weights = samples(given["label_weights"], graph.loss_label_weights(),
                                         given.where("label_weights"), "loss label weight");
  arguments.batch_size = given.get<std::int64_t>("batch_size");
  return arguments;
}

// Where a fit stood when something ended it.
std::string place_of(const FitProgress& progress, const FitArguments& arguments) {
  if (progress.epoch != 0) {
    return "after step " + std::to_string(progress.steps) + " of epoch " +
           std::to_string(progress.epoch);
  }
  const bool has_path = arguments.resume && !arguments.resume->empty();
  return "before its first step; " +
         (has_path ? "nothing of '" + *arguments.resume + "' was loaded, and no file was written"
                   : std::string("the graph is as it was")) +
         ": make the same call again";
}

// Raises in Python what ended a fit, with the epochs so far; ours say themselves in which step.
[[noreturn]] void raise_with(const FitProgress& progress, const FitArguments& arguments,
                             const std::exception_ptr& ending, bool says_step) {
  if (progress.epoch == 0 && says_step) std::rethrow_exception(ending);
  const py::object error = to_python(ending);
  // An exception may refuse attributes, as that of a frozen dataclass does: it is raised as it is.
  const auto attempt = [](const auto& change) {
    try {
      change();
    } catch (const py::error_already_set&) {
    }
  };
  attempt([&] { py::setattr(error, "epochs", py::cast(progress.epochs)); });
  const std::string text = place_of(progress, arguments);
  const bool is_bare = py::type::of(error).is(py::handle(PyExc_KeyboardInterrupt)) &&
                       py::len(error.attr("args")) == 0;
  if (is_bare) {
    error.attr("args") = py::make_tuple(text);
  } else if (!says_step) {
    attempt([&] { error.attr("add_note")("fit ended " + text); });
  }
  PyErr_SetObject(py::type::of(error).ptr(), error.ptr());
  throw py::error_already_set();
}

// An iterable of batches, asked by a thread of the core.
class Iteration {
 public:
  Iteration(const TrainingGraph& graph, py::object batches, Where where)
      : declared_(graph), batches_(std::move(batches)), where_(std::move(where)) {}

  bool next(int epoch, std::int64_t number, SampleData& batch) {
    const HeldGil held;
    if (number == 0) {
      if (py::hasattr(batches_, "set_epoch")) batches_.attr("set_epoch")(epoch);
      iterator_ = py::iter(batches_);
    }
    const auto item = py::reinterpret_steal<py::object>(PyIter_Next(iterator_.ptr()));
    if (!item) {
      if (PyErr_Occurred() != nullptr) throw py::error_already_set();
      return false;
    }
    batch = to_samples(declared_, item, where_, "");
    return true;
  }

 private:
  Declared declared_;
  py::object batches_;
  py::object iterator_;
  Where where_;
};

// The last to let it go may be that thread.
void destroy(Iteration* iteration) {
  if (PyGILState_Check() != 0) {
    delete iteration;
    return;
  }
  const HeldGil held;
  delete iteration;
}

void take_batches(const TrainingGraph& graph, const Arguments& given, FitArguments& arguments) {
  const py::object batches = given["batches"];
  const Where where = given.where("batches");
  if (batches.is_none()) {
    if (!given["inputs"].is_none()) return;
    throw InvalidArgument("[" + where.subject + "] expected inputs, or batches, but got neither");
  }
  if (!py::hasattr(batches, "__iter__") || PyType_Check(batches.ptr())) {
    refuse({where.subject, where.name,
            "an iterable of (inputs, labels) or (inputs, labels, label_weights)"},
           batches);
  }
  const std::shared_ptr<Iteration> iteration(new Iteration(graph, batches, where), destroy);
  arguments.next_batch = [iteration](int epoch, std::int64_t number, SampleData& batch) {
    return iteration->next(epoch, number, batch);
  };
  if (py::hasattr(batches, "__len__")) {
    arguments.batch_count = static_cast<std::int64_t>(py::len(batches));
  }
}

std::vector<std::string> to_metrics(const Arguments& given) {
  if (given["metrics"].is_none()) return {};
  return convert_list<std::string>(given["metrics"], given.where("metrics"));
}

// A path, or whether to go on from where the graph stands.
std::optional<std::string> to_resume(py::handle value, const Where& where) {
  if (value.is_none() || value.ptr() == Py_False) return std::nullopt;
  if (value.ptr() == Py_True) return std::string();
  std::string path = to_path(value, where);
  if (path.empty()) {  // which would be True
    throw InvalidArgument("[" + where.subject +
                          "] expected resume: a path, True or False but got an empty text");
  }
  return path;
}

// What tqdm draws while a fit runs.
class Bar {
 public:
  explicit Bar(int epochs)
      : bar_(py::module_::import("traingraph._progress").attr("Progress")(epochs)) {}
  ~Bar() {
    try {
      close();
    } catch (const py::error_already_set&) {  // somebody has heard of what ended the fit
    }
  }
  void close() { bar_.attr("close")(); }
  Bar(const Bar&) = delete;
  Bar& operator=(const Bar&) = delete;
  void show(const FitProgress& progress) {
    const Clock::time_point now = Clock::now();
    const bool is_last = progress.steps == progress.all_steps;
    if (!is_last && now - last_ < std::chrono::milliseconds(50)) return;
    last_ = now;
    const HeldGil held;
    bar_.attr("show")(progress.epoch, progress.steps, progress.all_steps, progress.loss);
  }

 private:
  using Clock = std::chrono::steady_clock;
  py::object bar_;
  Clock::time_point last_ = Clock::now();
};

void warn(const std::string& text) {
  if (PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 1) != 0) throw py::error_already_set();
}

void warn_of_end(const FitProgress& progress) {
  warn("[fit] expected epochs to train but " + progress.ended_by +
       " has ended the fit to go on with after epoch " + std::to_string(progress.epoch) +
       "; without resume, first_epoch=" + std::to_string(progress.epoch + 1) +
       " trains further epochs");
}

bool warns(const std::string& what, const Where& where) {
  if (what == "warn" || what == "raise") return what == "warn";
  const std::string meant = did_you_mean(what, {"raise", "warn"});
  throw InvalidArgument("[" + where.subject + "] expected " + where.name +
                        " of raise, warn but got '" + what + "'" + meant);
}

std::vector<Epoch> fit(TrainingGraph& self, const Arguments& given) {
  FitArguments arguments = arguments_of(self, given);
  take_batches(self, given, arguments);
  arguments.epochs = given.get<int>("epochs");
  arguments.first_epoch = given.get<int>("first_epoch");
  arguments.options = given.get<ExecutionOptions>("options");
  arguments.shuffle = given.get<bool>("shuffle");
  arguments.shuffle_seed = given.optional<std::uint64_t>("shuffle_seed");
  if (!given["validation"].is_none()) {
    arguments.validation =
        to_samples(Declared(self), given["validation"], given.where("validation"), "validation's ");
  }
  arguments.metrics = to_metrics(given);
  arguments.schedule = to_schedule(given["schedule"], given.where("schedule"));
  std::vector<py::object> callbacks;
  if (!given["callbacks"].is_none()) {
    callbacks = to_items(given["callbacks"], given.where("callbacks"));
  }
  for (std::size_t k = 0; k < callbacks.size(); ++k) {
    arguments.callbacks.push_back(to_callback(callbacks[k], given.where("callbacks").of_item(k)));
  }
  const py::object on_epoch = given["on_epoch"];
  if (!on_epoch.is_none()) {
    arguments.callbacks.push_back(to_callback(on_epoch, given.where("on_epoch")));
  }
  arguments.resume = to_resume(given["resume"], given.where("resume"));
  if (warns(given.get<std::string>("on_nonfinite"), given.where("on_nonfinite"))) {
    arguments.on_nonfinite = [](const std::string& text) {
      const HeldGil held;
      warn("[fit] " + text);
    };
  }
  arguments.on_missing_file = [](const std::string& text) {
    const HeldGil held;
    warn("[fit] " + text);
  };
  std::optional<Bar> bar;
  if (given.get<bool>("progress")) {
    bar.emplace(arguments.epochs);
    arguments.on_step = [&bar](const FitProgress& progress) { bar->show(progress); };
  }
  Signals signals;
  arguments.goes_on = [&signals] { return signals.checked(); };
  FitProgress progress;
  arguments.progress = &progress;
  try {
    std::vector<Epoch> epochs;
    {
      const ReleasedGil released;
      epochs = self.fit(arguments);
    }
    if (bar) bar->close();  // may be interrupted, too
    if (epochs.empty() && !progress.ended_by.empty()) warn_of_end(progress);
    return epochs;
  } catch (const Error&) {
    raise_with(progress, arguments, std::current_exception(), true);
  } catch (...) {
    raise_with(progress, arguments, std::current_exception(), false);
  }
}

constexpr const char* kSampleForms =
    "labels: Mapping[str, ArrayLike] | ArrayLike | None "
    "= None, label_weights: Mapping[str, ArrayLike] | "
    "ArrayLike | None = None, batch_size: int = 0";

py::object predict(ExecutableGraph& self, const Arguments& given) {
  const NamedData inputs = samples(given["inputs"], self.inputs(), given.where("inputs"), "input");
  const auto batch_size = given.get<std::int64_t>("batch_size");
  Signals signals;
  TensorData result;
  {
    const ReleasedGil released;
    result = self.predict(inputs, batch_size, [&signals] { signals.checked(); });
  }
  return view_of(result, true);
}

void add_predict(const py::module_& module, const char* name) {
  auto cls = described<ExecutableGraph>(module, name);
  def_method(
      cls, "predict", "numpy.ndarray",
      {"inputs: Mapping[str, ArrayLike] | ArrayLike, batch_size: int = 0"},
      "The first result of the last layer that is no loss, for all samples on axis 0, batch by "
      "batch.",
      predict);
}

}  // namespace

void add_fit(const py::module_& module) {
  add_predict(module, "MLCTrainingGraph");
  add_predict(module, "MLCInferenceGraph");
  auto cls = described<TrainingGraph>(module, "MLCTrainingGraph");
  def_method(
      cls, "fit", "list[Epoch]",
      {"inputs: Mapping[str, ArrayLike] | ArrayLike | None = None, " + std::string(kSampleForms) +
       ", epochs: int = 1, shuffle: bool = True, shuffle_seed: int | None = None, on_epoch: "
       "Callable[[Epoch], bool | None] | None = None, "
       "options: MLCExecutionOptions | str = MLCExecutionOptions.NONE, "
       "validation: tuple[Any, ...] | None = None, metrics: Sequence[str] | None = None, "
       "schedule: RateSchedule | Callable[[int], float] | None = None, "
       "callbacks: Sequence[FitCallback | Callable[[Epoch], bool | None]] | None = None, "
       "progress: bool = False, first_epoch: int = 1, on_nonfinite: str = 'raise', "
       "resume: str | os.PathLike[str] | bool = False, "
       "batches: Iterable[tuple[Any, ...]] | None = None"},
      "Trains over all samples batch by batch; the last batch may be smaller. Shapes: samples on "
      "axis 0. batches, instead of arrays: an iterable of (inputs, labels) or (inputs, labels, "
      "label_weights), begun anew in each epoch and run by a thread of its own, ahead of the "
      "steps. Each epoch has another order, unless shuffle is False. It follows from shuffle_seed "
      "and the epoch's number; without one from the graph's seed and its count of forward passes, "
      "so that a training resumed after an epoch goes on with the order that it would have had. "
      "Epochs are those from first_epoch to epochs. validation: (inputs, labels) or (inputs, "
      "labels, label_weights), evaluated after each epoch, with the metrics: accuracy, top_<k>, "
      "mean_absolute_error, mean_squared_error, auc, confusion_matrix. schedule sets the rate of "
      "each step. callbacks and on_epoch are asked after each epoch; one that returns False ends "
      "the training. An object is one callback; async functions are refused. progress draws with "
      "tqdm. resume goes on "
      "with a fit that has not ended: from a checkpoint that was saved within it, if the file is "
      "there, or, for True, from where the graph stands; where a callback has ended it, it trains "
      "nothing and warns. options: CHECK_NUMERICS stops at the first NaN or "
      "infinity. Errors: ValueError, TypeError for samples that do not fit, before the first "
      "batch; NumericError after a step whose loss is not finite, or a warning for "
      "on_nonfinite='warn'; what ends a fit has the epochs so far as `epochs` and names the step, "
      "and the weights are those after the last whole step.",
      [](TrainingGraph& self, const Arguments& arguments) { return fit(self, arguments); },
      Signature::Kind::kPairMethod);
  def_method(
      cls, "evaluate", "Evaluation",
      {"inputs: Mapping[str, ArrayLike] | ArrayLike, " + std::string(kSampleForms) +
       ", metrics: Sequence[str] | None = None"},
      "Loss, accuracy and the metrics over all samples, in inference mode: accuracy, top_<k>, "
      "mean_absolute_error, mean_squared_error, auc, confusion_matrix. Errors: ValueError for "
      "another name, or one that does not go with the loss.",
      [](TrainingGraph& self, const Arguments& given) {
        FitArguments arguments = arguments_of(self, given);
        arguments.metrics = to_metrics(given);
        Signals signals;
        arguments.goes_on = [&signals] { return signals.checked(); };
        const ReleasedGil released;
        return self.evaluate(arguments);
      },
      Signature::Kind::kPairMethod);
}

}  // namespace traingraph::python
