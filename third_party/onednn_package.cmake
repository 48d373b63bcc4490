# oneDNN as traingraph::dnnl: a copy with a name and soname of our own. Other packages install
# libdnnl.so.3 too, and of two libraries with one soname the first one loaded serves both.

execute_process(
  COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_LIST_DIR}/locate.py"
    onednn-devel-cpu-gomp dnnl-config.cmake
  OUTPUT_VARIABLE onednn_directory
  ERROR_VARIABLE onednn_error
  RESULT_VARIABLE onednn_result
  OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT onednn_result EQUAL 0)
  message(FATAL_ERROR
    "oneDNN was not found: ${onednn_error}"
    "Install it with: pip install onednn-devel-cpu-gomp==2023.2.0")
endif()
# FORCE: under build isolation the path is another one in each build.
set(dnnl_DIR "${onednn_directory}" CACHE PATH "Directory of dnnl-config.cmake" FORCE)

include("${CMAKE_CURRENT_LIST_DIR}/find_onednn.cmake")

find_program(TRAINGRAPH_PATCHELF patchelf NO_CACHE REQUIRED)

get_target_property(onednn_include DNNL::dnnl INTERFACE_INCLUDE_DIRECTORIES)
get_target_property(onednn_library DNNL::dnnl IMPORTED_LOCATION_RELEASE)
set(private_include "${PROJECT_BINARY_DIR}/onednn/include")
set(private_library "${PROJECT_BINARY_DIR}/lib/libtraingraph_dnnl.so")

copy_headers("${onednn_include}" "${private_include}" "dnnl*.h" "dnnl*.hpp" "oneapi/dnnl/*")

file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
file(COPY_FILE "${onednn_library}" "${private_library}.new")
execute_process(
  COMMAND "${TRAINGRAPH_PATCHELF}" --set-soname libtraingraph_dnnl.so "${private_library}.new"
  COMMAND_ERROR_IS_FATAL ANY)
file(COPY_FILE "${private_library}.new" "${private_library}" ONLY_IF_DIFFERENT)
file(REMOVE "${private_library}.new")

add_library(traingraph::dnnl SHARED IMPORTED GLOBAL)
set_target_properties(traingraph::dnnl PROPERTIES
  IMPORTED_LOCATION "${private_library}"
  IMPORTED_SONAME libtraingraph_dnnl.so
  INTERFACE_INCLUDE_DIRECTORIES "${private_include}")
