// The extension module traingraph._core: ML Compute's classes are bound at import, those of MPS
// when the first of them is used.
#include <thread>
#include <vector>

#include <traingraph/mutex.h>

#include "bindings.h"
#include "classes/collector.h"
#include "classes/missing_members.h"
#include "classes/python_types.h"
#include "classes/signature.h"
#include "convert/enums.h"
#include "convert/errors.h"
#include "convert/gil.h"
#include "convert/unmade_objects.h"

namespace {

// Thousands of objects are made here and all are kept: looking for garbage among them would be a
// tenth of the import.
class CollectorPause {
 public:
  CollectorPause() : was_on_(PyGC_Disable() != 0) {}
  ~CollectorPause() {
    if (was_on_) PyGC_Enable();
  }
  CollectorPause(const CollectorPause&) = delete;
  CollectorPause& operator=(const CollectorPause&) = delete;

 private:
  bool was_on_;
};

using namespace traingraph::python;

// Two thirds of the classes are MPS's. They are made when the first name of theirs is asked for,
// by traingraph.mps or by a pickle: who uses ML Compute alone waits for none of them.
void make_mps_on_demand(py::module_& module) {
  const auto get = [module](const Arguments& arguments) -> py::object {
    const py::object name = arguments["name"];
    static traingraph::Once made;
    static std::thread::id maker;  // pybind11 asks for a class's name before it adds it
    if (!PyUnicode_Check(name.ptr())) refuse(arguments.where("name"), name);
    const bool is_special = py::cast<bool>(name.attr("startswith")("__"));
    if (!is_special && !made.is_done() && maker != std::this_thread::get_id()) {
      const ReleasedGil released;
      made.call([&] {
        const HeldGil held;
        maker = std::this_thread::get_id();
        const CollectorPause paused;
        py::module_ whole = module;
        bind_mps(whole);
        list_exports(whole);
        refuse_unmade_objects();
        name_missing_members();
        maker = {};
      });
    }
    const py::dict names = module.attr("__dict__");
    if (names.contains(name)) return names[name];
    PyErr_Format(PyExc_AttributeError, "module 'traingraph._core' has no attribute %R", name.ptr());
    throw py::error_already_set();
  };
  def_function(module, "__getattr__", "Any", {"name: str"}, "Makes the classes of MPS.", get);
}

// Classes are kept for the whole process, with the objects of one interpreter.
int refuse_sub_interpreter(PyObject*) {
  if (PyInterpreterState_Get() == PyInterpreterState_Main()) return 0;
  PyErr_SetString(PyExc_ImportError,
                  "traingraph works in the main interpreter of a process, but was imported in a "
                  "sub-interpreter; under mod_wsgi, set WSGIApplicationGroup %{GLOBAL}");
  return -1;
}

}  // namespace

PYBIND11_MODULE(_core_of_main, module) {
  const CollectorPause paused;
  module.doc() = "ML Compute's classes over the C++ core. Import traingraph instead.";
  // Defaults in signatures are evaluated with the module's names, and Python adds this then.
  module.attr("__builtins__") = pybind11::module_::import("builtins");
  bind_collector();
  bind_signals();
  bind_errors(module);
  bind_enums(module);
  bind_enum_members();
  remember_plain_types();
  remember_array_types();
  bind_device(module);
  bind_tensor_data(module);
  bind_tensor(module);
  bind_layers(module);
  bind_optimizers(module);
  bind_distributed(module);
  bind_records(module);
  bind_execution(module);
  bind_graphs(module);
  bind_notebook(module);
  bind_check_gradients(module);
  bind_nn(module);
  list_exports(module);
  refuse_unmade_objects();
  name_missing_members();
  bind_nearest_name(module);
  make_mps_on_demand(module);
}

// Before pybind11 does anything, which would wait for the main interpreter's lock for ever. Python
// runs this function in the interpreter that imports, or from 3.13 on in the main one, and what the
// slots say in the one that imports.
extern "C" PYBIND11_EXPORT PyObject* PyInit__core() {
  if (refuse_sub_interpreter(nullptr) != 0) return nullptr;
  PyObject* const made = PyInit__core_of_main();
  if (made == nullptr) return nullptr;
  auto* const definition = reinterpret_cast<PyModuleDef*>(made);
  static std::vector<PyModuleDef_Slot> slots;
  if (slots.empty()) {
    slots.push_back({Py_mod_exec, reinterpret_cast<void*>(&refuse_sub_interpreter)});
    for (const PyModuleDef_Slot* slot = definition->m_slots; slot->slot != 0; ++slot) {
      slots.push_back(*slot);
    }
    slots.push_back({0, nullptr});
  }
  definition->m_slots = slots.data();
  return made;
}
