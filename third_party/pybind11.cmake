# pybind11 out of its Python package, with its headers at a place that keeps its name.

execute_process(
  COMMAND "${Python_EXECUTABLE}" -m pybind11 --cmakedir
  OUTPUT_VARIABLE pybind11_hint
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(pybind11_hint)
  # FORCE: a kept build folder remembers the folder of an earlier isolated build.
  set(pybind11_DIR "${pybind11_hint}" CACHE PATH "Directory of pybind11Config.cmake" FORCE)
endif()
find_package(pybind11 3...<3.2 CONFIG REQUIRED)

set(private_include "${PROJECT_BINARY_DIR}/pybind11/include")
copy_headers("${pybind11_INCLUDE_DIR}" "${private_include}" "pybind11/*.h")
set_target_properties(pybind11::pybind11_headers PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES "${private_include}")
