# The only place that finds dependencies. Included rather than added as a subdirectory, so that
# imported targets and pybind11's commands are visible to the whole build.

set(python_components Interpreter)
if(TRAINGRAPH_BUILD_PYTHON)
  list(APPEND python_components Development.Module)
endif()
find_package(Python 3.11 REQUIRED COMPONENTS ${python_components})

find_package(Threads REQUIRED)
if(NOT TRAINGRAPH_PORTABLE)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  include("${CMAKE_CURRENT_LIST_DIR}/onednn.cmake")
endif()
if(TRAINGRAPH_CUDA)
  include("${CMAKE_CURRENT_LIST_DIR}/nvidia.cmake")
endif()

if(TRAINGRAPH_BUILD_PYTHON)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -m pybind11 --cmakedir
    OUTPUT_VARIABLE pybind11_hint
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  find_package(pybind11 3 CONFIG REQUIRED HINTS "${pybind11_hint}")
endif()
