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
#include "convert/names.h"
#include "mlcompute/fit.h"

namespace traingraph::python {
namespace {

// A dictionary by declared name, or the one array where one tensor is declared.
NamedData samples(const py::object& given, const NamedTensors& declared, const Where& where,
                  const char* role) {
  if (given.is_none()) return {};
  if (py::isinstance<py::dict>(given)) {
    return named_data(given, declared, where.subject.c_str(), where.name.c_str(), role,
                      Access::kRead);
  }
  if (declared.size() != 1) {
    throw InvalidArgument("[" + where.subject + "] expected a dictionary for " + where.name +
                          ", because " + std::to_string(declared.size()) + " are declared");
  }
  py::dict one;
  one[py::str(declared.front().first)] = given;
  return named_data(one, declared, where.subject.c_str(), where.name.c_str(), role, Access::kRead);
}

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

// Raises in Python what ended a fit, with the epochs so far; ours say themselves in which step.
[[noreturn]] void raise_with(const FitProgress& progress, const std::exception_ptr& ending,
                             bool says_step) {
  if (progress.epoch == 0) std::rethrow_exception(ending);
  const py::object error = to_python(ending);
  // An exception may refuse attributes, as that of a frozen dataclass does: it is raised as it is.
  const auto attempt = [](const auto& change) {
    try {
      change();
    } catch (const py::error_already_set&) {
    }
  };
  attempt([&] { py::setattr(error, "epochs", py::cast(progress.epochs)); });
  const std::string text = "after step " + std::to_string(progress.steps) + " of epoch " +
                           std::to_string(progress.epoch);
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

std::vector<Epoch> fit(TrainingGraph& self, const Arguments& given) {
  FitArguments arguments = arguments_of(self, given);
  arguments.epochs = given.get<int>("epochs");
  arguments.options = given.get<ExecutionOptions>("options");
  arguments.shuffle = given.get<bool>("shuffle");
  arguments.shuffle_seed = given.optional<std::uint64_t>("shuffle_seed");
  const py::object on_epoch = given["on_epoch"];
  if (!on_epoch.is_none()) {
    to_callable(on_epoch, given.where("on_epoch"));
    arguments.on_epoch = [&on_epoch](const Epoch& epoch) {
      const HeldGil held;
      const py::object answer = on_epoch(epoch);
      return answer.is_none() || py::cast<bool>(py::bool_(answer));
    };
  }
  Signals signals;
  arguments.goes_on = [&signals] { return signals.checked(); };
  FitProgress progress;
  arguments.progress = &progress;
  try {
    const ReleasedGil released;
    return self.fit(arguments);
  } catch (const Error&) {
    raise_with(progress, std::current_exception(), true);
  } catch (...) {
    raise_with(progress, std::current_exception(), false);
  }
}

constexpr const char* kSampleForms =
    "inputs: Mapping[str, ArrayLike] | ArrayLike, "
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
      {std::string(kSampleForms) +
       ", epochs: int = 1, shuffle: bool = True, shuffle_seed: int | None = None, on_epoch: "
       "Callable[[Epoch], bool | None] | None = None, "
       "options: MLCExecutionOptions | str = MLCExecutionOptions.NONE"},
      "Trains over all samples batch by batch; the last batch may be smaller. Shapes: samples on "
      "axis 0. Each epoch has another order, unless shuffle is False. It follows from shuffle_seed "
      "and the epoch's number; without one from the graph's seed and its count of forward passes, "
      "so that a training resumed after an epoch goes on with the order that it would have had. "
      "on_epoch is called after each epoch and ends the training by returning False. options: "
      "CHECK_NUMERICS stops at the first NaN or infinity. Errors: ValueError, TypeError for samples "
      "that do not fit, before the first batch; what ends a fit later has the epochs so far as "
      "`epochs` and names the step, and the weights are those after the last whole step.",
      [](TrainingGraph& self, const Arguments& arguments) { return fit(self, arguments); },
      Signature::Kind::kPairMethod);
  def_method(
      cls, "evaluate", "Evaluation", {kSampleForms},
      "Loss and accuracy over all samples, in inference mode.",
      [](TrainingGraph& self, const Arguments& given) {
        FitArguments arguments = arguments_of(self, given);
        Signals signals;
        arguments.goes_on = [&signals] { return signals.checked(); };
        const ReleasedGil released;
        return self.evaluate(arguments);
      },
      Signature::Kind::kPairMethod);
}

}  // namespace traingraph::python
