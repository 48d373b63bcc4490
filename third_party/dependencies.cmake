# The only place that finds dependencies. Included rather than added as a subdirectory, so that
# imported targets and pybind11's commands are visible to the whole build.

set(python_components Interpreter)
if(TRAINGRAPH_BUILD_PYTHON)
  list(APPEND python_components Development.Module)
endif()
find_package(Python 3.11 REQUIRED COMPONENTS ${python_components})

include("${CMAKE_CURRENT_LIST_DIR}/copy_headers.cmake")
find_package(Threads REQUIRED)
if(NOT TRAINGRAPH_PORTABLE)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  include("${CMAKE_CURRENT_LIST_DIR}/onednn.cmake")
endif()
if(TRAINGRAPH_CUDA)
  include("${CMAKE_CURRENT_LIST_DIR}/nvidia.cmake")
endif()

if(TRAINGRAPH_BUILD_PYTHON)
  include("${CMAKE_CURRENT_LIST_DIR}/pybind11.cmake")
endif()
