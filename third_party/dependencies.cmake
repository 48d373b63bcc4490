# The only place that finds dependencies. Included rather than added as a subdirectory, so that
# imported targets and pybind11's commands are visible to the whole build.

# Python, for the bindings, and to ask where its packages are.
set(python_components "")
if(TRAINGRAPH_BUILD_PYTHON)
  set(python_components Interpreter Development.Module)
elseif(TRAINGRAPH_CUDA OR TRAINGRAPH_ONEDNN STREQUAL "package")
  set(python_components Interpreter)
endif()
if(python_components)
  find_package(Python 3.11 REQUIRED COMPONENTS ${python_components})
endif()

include("${CMAKE_CURRENT_LIST_DIR}/copy_headers.cmake")
find_package(Threads REQUIRED)
if(NOT TRAINGRAPH_PORTABLE)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
endif()
if(TRAINGRAPH_ONEDNN STREQUAL "package")
  include("${CMAKE_CURRENT_LIST_DIR}/onednn_package.cmake")
elseif(TRAINGRAPH_ONEDNN)
  include("${CMAKE_CURRENT_LIST_DIR}/onednn_system.cmake")
endif()
if(TRAINGRAPH_CUDA)
  include("${CMAKE_CURRENT_LIST_DIR}/nvidia.cmake")
endif()

if(TRAINGRAPH_BUILD_PYTHON)
  include("${CMAKE_CURRENT_LIST_DIR}/pybind11.cmake")
endif()
