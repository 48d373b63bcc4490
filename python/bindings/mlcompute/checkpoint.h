// Binds the checkpoint methods of executable graphs: save, load, state, load_state and
// named_parameters.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/typing.h>

#include <functional>
#include <string>

#include "bindings.h"
#include "classes/signature.h"

namespace traingraph::python {

using Arrays = py::typing::Dict<py::str, py::array>;

// A str, bytes or os.PathLike as the system's bytes.
std::string to_path(py::handle value, const Where& where);
Arrays to_arrays(const NamedData& data);
// Any arrays by name, each with the type it has; numbers in lists with that of the state, which is
// asked for when there are any.
NamedData from_arrays(py::handle dictionary, const Where& where,
                      const std::function<NamedData()>& state);

template <typename Self>
NamedData state_of(const Self& self) {
  const ReleasedGil released;
  return self.copy_state();
}

template <typename Class>
void def_checkpoint(Class& cls) {
  using Self = typename Class::type;
  cls.def(
      "named_parameters",
      [](const Self& self) {
        py::typing::Dict<py::str, Tensor> result;
        for (const auto& [name, tensor] : self.named_parameters()) {
          result[py::str(name)] = py::cast(tensor);
        }
        return result;
      },
      "Weights, biases, running statistics and trained inputs by their names in checkpoints.");
  def_method(
      cls, "save", "None", {"path: str | os.PathLike[str]"},
      "Writes a checkpoint in the safetensors format, atomically and after what was "
      "submitted before. Errors: OSError with errno and filename; ValueError for a path with a "
      "NUL.",
      [](const Self& self, const Arguments& arguments) {
        const std::string path = to_path(arguments["path"], arguments.where("path"));
        const ReleasedGil released;
        self.save(path);
      });
  def_method(cls, "load", "None", {"path: str | os.PathLike[str]"},
             "Takes a checkpoint of such a graph, after what was submitted before. Errors: "
             "OSError; ValueError that lists every difference, and then nothing has changed.",
             [](Self& self, const Arguments& arguments) {
               const std::string path = to_path(arguments["path"], arguments.where("path"));
               const ReleasedGil released;
               self.load(path);
             });
  cls.def(
      "state", [](const Self& self) { return to_arrays(state_of(self)); },
      "Copies of what save() writes, by name.");
  def_method(cls, "load_state", "None", {"values: Mapping[str, ArrayLike]"},
             "Takes what state() gives, or the parameters alone; the checks are those of load(). "
             "Types: exactly the tensors' own; lists of numbers take them. Errors: ValueError, "
             "TypeError.",
             [](Self& self, const Arguments& arguments) {
               const NamedData data = from_arrays(arguments["values"], arguments.where("values"),
                                                  [&self] { return state_of(self); });
               const ReleasedGil released;
               self.load_state(data);
             });
}

}  // namespace traingraph::python
