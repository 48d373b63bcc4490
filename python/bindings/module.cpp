// The extension module traingraph._core: ML Compute's classes are bound at import, those of MPS
// when the first of them is used.
#include <pybind11/gil_safe_call_once.h>

#include <thread>

#include "bindings.h"
#include "classes/collector.h"
#include "classes/python_types.h"
#include "classes/signature.h"
#include "convert/enums.h"
#include "convert/errors.h"
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
    PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<bool> made;
    static std::thread::id maker;  // pybind11 asks for a class's name before it adds it
    if (!PyUnicode_Check(name.ptr())) refuse(arguments.where("name"), name);
    const bool is_special = py::cast<bool>(name.attr("startswith")("__"));
    if (!is_special && maker != std::this_thread::get_id()) {
      made.call_once_and_store_result([&] {
        maker = std::this_thread::get_id();
        const CollectorPause paused;
        py::module_ whole = module;
        bind_mps(whole);
        list_exports(whole);
        refuse_unmade_objects();
        maker = {};
        return true;
      });
    }
    const py::dict names = module.attr("__dict__");
    if (names.contains(name)) return names[name];
    PyErr_Format(PyExc_AttributeError, "module 'traingraph._core' has no attribute %R", name.ptr());
    throw py::error_already_set();
  };
  def_function(module, "__getattr__", "Any", {"name: str"}, "Makes the classes of MPS.", get);
}

}  // namespace

PYBIND11_MODULE(_core, module) {
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
  bind_records(module);
  bind_execution(module);
  bind_graphs(module);
  bind_check_gradients(module);
  bind_nn(module);
  list_exports(module);
  refuse_unmade_objects();
  make_mps_on_demand(module);
}
