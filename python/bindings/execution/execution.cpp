// Binds the execute methods of training and inference graphs, whose keywords are looked up by the
// address of an interned string.
#include "execution/execution.h"

#include <array>
#include <cstring>
#include <string_view>

#include "classes/signature.h"
#include "convert/convert.h"
#include "convert/data.h"
#include "convert/errors.h"
#include "convert/names.h"
#include "execution/handle.h"

namespace traingraph::python {
namespace {

enum Argument {
  kInputs,
  kLabels,
  kWeights,
  kOutputs,
  kBatchSize,
  kOptions,
  kHandler,
  kArgumentCount
};
constexpr std::array<const char*, kArgumentCount> kNames = {
    "inputs_data", "loss_labels_data", "loss_label_weights_data", "outputs_data",
    "batch_size",  "options",          "completion_handler"};
constexpr unsigned kAll = (1U << kArgumentCount) - 1;
constexpr unsigned kUpdateOnly = 1U << kOptions | 1U << kHandler;
constexpr unsigned kPass = kUpdateOnly | 1U << kBatchSize | 1U << kOutputs;

// One method: what it takes and what it calls.
struct Call {
  const char* subject;  // "MLCTrainingGraph.execute"
  unsigned accepted;
  bool needs_inputs;
  Outcome outcome;
  ExecutableGraph& (*graph_of)(PyObject* self);
  Execution (*execute)(ExecutableGraph& graph, const ExecutionArguments& arguments);

  const char* name() const { return std::strchr(subject, '.') + 1; }
};

// What py::cast gives, without its search: the object is of one of two classes, with one C++ object
// unless a Python class has several bases. pybind11 refuses one that was never initialized.
template <typename Graph>
ExecutableGraph& graph_of(PyObject* self) {
  auto* const instance = reinterpret_cast<py::detail::instance*>(self);
  void* const made = instance->simple_layout ? instance->simple_value_holder[0] : nullptr;
  return made != nullptr ? *static_cast<Graph*>(made) : py::cast<Graph&>(py::handle(self));
}

template <auto kMethod, typename Graph>
Execution execute_by(ExecutableGraph& graph, const ExecutionArguments& arguments) {
  return (static_cast<Graph&>(graph).*kMethod)(arguments);
}
constexpr Call kTraining = {"MLCTrainingGraph.execute",
                            kAll,
                            true,
                            Outcome::kResultAndTime,
                            graph_of<TrainingGraph>,
                            execute_by<&TrainingGraph::execute, TrainingGraph>};
constexpr Call kForward = {"MLCTrainingGraph.execute_forward",
                           kPass,
                           false,
                           Outcome::kResultAndTime,
                           graph_of<TrainingGraph>,
                           execute_by<&TrainingGraph::execute_forward, TrainingGraph>};
constexpr Call kGradient = {"MLCTrainingGraph.execute_gradient",
                            kPass,
                            false,
                            Outcome::kTime,
                            graph_of<TrainingGraph>,
                            execute_by<&TrainingGraph::execute_gradient, TrainingGraph>};
constexpr Call kUpdate = {"MLCTrainingGraph.execute_optimizer_update",
                          kUpdateOnly,
                          false,
                          Outcome::kTime,
                          graph_of<TrainingGraph>,
                          execute_by<&TrainingGraph::execute_optimizer_update, TrainingGraph>};
constexpr Call kInference = {"MLCInferenceGraph.execute",
                             kAll,
                             true,
                             Outcome::kResultAndTime,
                             graph_of<InferenceGraph>,
                             execute_by<&InferenceGraph::execute, InferenceGraph>};

// Interned once; keywords in source code are interned too, so that comparing addresses finds them.
const std::array<PyObject*, kArgumentCount>& interned() {
  static const auto names = [] {
    std::array<PyObject*, kArgumentCount> result{};
    for (int i = 0; i < kArgumentCount; ++i) {
      result[i] = PyUnicode_InternFromString(kNames[i]);
    }
    return result;
  }();
  return names;
}

int index_of(PyObject* keyword) {
  const auto& names = interned();
  for (int i = 0; i < kArgumentCount; ++i) {
    if (names[i] == keyword) {
      return i;
    }
  }
  for (int i = 0; i < kArgumentCount; ++i) {
    if (PyUnicode_Compare(names[i], keyword) == 0) {
      return i;
    }
  }
  return kArgumentCount;
}

[[noreturn]] void refuse_keyword(const Call& call, PyObject* keyword) {
  std::string accepted;
  std::vector<std::string> names;
  for (int i = 0; i < kArgumentCount; ++i) {
    if ((call.accepted >> i & 1U) == 0) continue;
    names.emplace_back(kNames[i]);
    accepted += (accepted.empty() ? "" : ", ") + names.back();
  }
  const std::string word = printable(keyword);
  throw py::type_error(std::string("[") + call.subject + "] expected keywords of " + accepted +
                       " but got " + word + did_you_mean(word, names, ""));
}

using Given = std::array<PyObject*, kArgumentCount>;  // null where the caller gave none

Given parse(const Call& call, PyObject* const* values, Py_ssize_t positional, PyObject* keywords) {
  if (positional != 0) {
    const bool takes_data = (call.accepted >> kInputs & 1U) != 0;
    const bool trains = std::string_view(call.subject).starts_with("MLCTraining");
    throw py::type_error(
        std::string("[") + call.subject + "] expected keywords only but got " +
        std::to_string(positional) + " positional argument" + (positional == 1 ? "" : "s") +
        (!takes_data ? ""
         : trains    ? "; write inputs_data={name: array}, loss_labels_data={name: array}"
                     : "; write inputs_data={name: array}"));
  }
  Given given{};
  const Py_ssize_t count = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const keyword = PyTuple_GET_ITEM(keywords, i);
    const int index = index_of(keyword);
    if (index == kArgumentCount || (call.accepted >> index & 1U) == 0) {
      refuse_keyword(call, keyword);
    }
    given[index] = values[i] != Py_None ? values[i] : nullptr;
  }
  return given;
}

// What was given, in place of the arguments of an earlier call.
void renew(ExecutionArguments& result, const Call& call, const ExecutableGraph& graph,
           const Given& given) {
  result.options = ExecutionOptions::kNone;
  result.batch_size = 0;
  if (given[kOptions] != nullptr) {
    result.options = py::cast<ExecutionOptions>(py::handle(given[kOptions]));
  }
  if (call.needs_inputs && given[kInputs] == nullptr &&
      !has(result.options, ExecutionOptions::kSkipWritingInputDataToDevice)) {
    throw py::type_error(std::string("[") + call.subject + "] missing: inputs_data");
  }
  const auto read = [&](NamedData& data, Argument argument, const NamedTensors& declared,
                        const char* role) {
    if (given[argument] == nullptr) return data.clear();
    renew_data(data, given[argument], declared, call.subject, kNames[argument], role);
  };
  read(result.inputs, kInputs, graph.inputs(), "input");
  read(result.loss_labels, kLabels, graph.loss_labels(), "loss label");
  read(result.loss_label_weights, kWeights, graph.loss_label_weights(), "loss label weight");
  if (given[kOutputs] != nullptr) {
    result.outputs = named_data(given[kOutputs], graph.outputs(), call.subject, kNames[kOutputs],
                                "output", Access::kWrite);
  }
  if (given[kBatchSize] != nullptr) {
    result.batch_size = to_integer(given[kBatchSize], {call.subject, "batch_size", "int"});
  }
  if (given[kHandler] != nullptr) {
    result.completion_handler = completion_handler(
        to_callable(given[kHandler], {call.subject, "completion_handler", "a callable"}));
  }
}

template <const Call& call>
PyObject* invoke(PyObject* self, PyObject* const* values, Py_ssize_t positional,
                 PyObject* keywords) {
  const EnteredCall entered;
  try {
    const Given given = parse(call, values, positional, keywords);
    ExecutableGraph& graph = call.graph_of(self);
    // Not in its place meanwhile: what is called here may call this graph again, and so may
    // threads.
    ExecutionArguments arguments = std::move(graph.last_arguments());
    renew(arguments, call, graph, given);
    const bool synchronous = has(arguments.options, ExecutionOptions::kSynchronous);
    // Before the step: one that has been asked for is not to fail for want of its handle.
    const py::object wrapper = wrapper_of(Handle({}, call.outcome));
    Execution execution;
    {
      const ReleasedGil released;
      execution = call.execute(graph, arguments);
      if (synchronous) {
        execution.wait();
      }
    }
    // These are of this call alone.
    arguments.outputs.clear();
    arguments.completion_handler = nullptr;
    graph.last_arguments() = std::move(arguments);
    handle_of(wrapper).begin(std::move(execution));
    return wrapper.inc_ref().ptr();
  } catch (...) {
    set_python_error(std::current_exception());
    return nullptr;
  }
}

template <const Call& call>
void def(py::handle cls, const char* text) {
  const std::string mapping = ": collections.abc.Mapping[str, ";
  const std::string array = mapping + "numpy.typing.ArrayLike | MLCTensorData]";
  const std::string written = mapping + kWritten + " | MLCTensorData]";
  const std::array<std::string, kArgumentCount> annotated = {
      kNames[kInputs] + array + (call.needs_inputs ? "" : " | None = None"),
      kNames[kLabels] + array + " | None = None",
      kNames[kWeights] + array + " | None = None",
      kNames[kOutputs] + written + " | None = None",
      "batch_size: int = 0",
      "options: MLCExecutionOptions | str = MLCExecutionOptions.NONE",
      "completion_handler: collections.abc.Callable[[MLCTensor | None, Exception | None, float], "
      "None] | None = None"};
  // Apple puts outputs_data before the batch size of execute, but after the options of a pass.
  using Order = std::array<int, kArgumentCount>;
  const Order order =
      call.needs_inputs
          ? Order{kInputs, kLabels, kWeights, kOutputs, kBatchSize, kOptions, kHandler}
          : Order{kInputs, kLabels, kWeights, kBatchSize, kOptions, kOutputs, kHandler};
  std::string signature = std::string(call.name()) + "(self, *";
  // For inspect.signature, which knows no names of modules in a method that C defines.
  std::string names = std::string(call.name()) + "($self, *";
  for (const int i : order) {
    if ((call.accepted >> i & 1U) == 0) continue;
    signature += ", " + annotated[i];
    const std::size_t value = annotated[i].find(" = ");
    names += std::string(", ") + kNames[i] +
             (value == std::string::npos ? ""
              : i == kOptions            ? "=0"
                                         : "=" + annotated[i].substr(value + 3));
  }
  // Python keeps pointers to the definition and its text.
  auto* const doc =
      new std::string(names + ")\n--\n\n" + signature + ") -> MLCExecution\n\n" + text);
  auto* const definition = new PyMethodDef{
      call.name(), reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&invoke<call>)),
      METH_FASTCALL | METH_KEYWORDS, doc->c_str()};
  const auto method = py::reinterpret_steal<py::object>(
      PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(cls.ptr()), definition));
  cls.attr(call.name()) = method;
}

}  // namespace

void def_training_execution(py::handle cls) {
  def<kTraining>(cls,
                 "Forward, loss, gradient, then the update if there is an optimizer. Types: arrays "
                 "that fit are used in place. Errors: ValueError, TypeError for data that does "
                 "not fit; a SYNCHRONOUS call raises what the work raised.");
  def<kForward>(cls, "The forward pass and the loss, over what bind_and_write_data wrote.");
  def<kGradient>(cls, "The gradients of the last forward pass; each call overwrites them.");
  def<kUpdate>(cls, "Applies the optimizer to the last gradients.");
}

void def_inference_execution(py::handle cls) {
  def<kInference>(cls, "The forward pass in inference mode.");
}

void bind_execution(py::module_& module) { bind_handle(module); }

}  // namespace traingraph::python
