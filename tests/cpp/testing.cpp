#include "testing.h"

#include <traingraph/errors.h>

namespace {

namespace py = pybind11;

// The hierarchy of errors as the public module maps it.
void translate(std::exception_ptr pointer) {
  if (!pointer) return;
  try {
    std::rethrow_exception(pointer);
  } catch (const traingraph::DataTypeError& error) {
    py::set_error(PyExc_TypeError, error.what());
  } catch (const traingraph::InvalidArgument& error) {
    py::set_error(PyExc_ValueError, error.what());
  } catch (const traingraph::Unsupported& error) {
    py::set_error(PyExc_NotImplementedError, error.what());
  } catch (const traingraph::OutOfMemory& error) {
    py::set_error(PyExc_MemoryError, error.what());
  } catch (const traingraph::Error& error) {
    py::set_error(PyExc_RuntimeError, error.what());
  }
}

}  // namespace

PYBIND11_MODULE(_testing, module) {
  module.doc() = "Internals of the core, for tests.";
  py::register_local_exception_translator(translate);
  traingraph::testing::bind_graph(module);
  traingraph::testing::bind_scalar_table(module);
  traingraph::testing::bind_random(module);
  traingraph::testing::bind_allocations(module);
  traingraph::testing::bind_device(module);
  traingraph::testing::bind_layouts(module);
  traingraph::testing::bind_plans(module);
  traingraph::testing::bind_networks(module);
  traingraph::testing::bind_launch_groups(module);
  traingraph::testing::bind_streams(module);
  traingraph::testing::bind_forks(module);
  traingraph::testing::bind_coding(module);
  traingraph::testing::bind_nodes(module);
  traingraph::testing::bind_data_sources(module);
  traingraph::testing::bind_check_gradients(module);
  traingraph::testing::bind_locales(module);
  traingraph::testing::bind_mistakes(module);
}
