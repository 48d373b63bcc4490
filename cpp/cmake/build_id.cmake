# What a plugin must have been built from to fit the core: the headers that both share, and the
# compiler. Configuring again follows a change of any of them.

file(GLOB shared CONFIGURE_DEPENDS
  "${CMAKE_CURRENT_SOURCE_DIR}/include/traingraph/*.h" "${CMAKE_CURRENT_SOURCE_DIR}/src/ops.def"
  "${CMAKE_CURRENT_SOURCE_DIR}/src/ir/*.h" "${CMAKE_CURRENT_SOURCE_DIR}/src/ir/*.def"
  "${CMAKE_CURRENT_SOURCE_DIR}/src/runtime/*.h" "${CMAKE_CURRENT_SOURCE_DIR}/src/runtime/*/*.h")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${shared})
set(text "${PROJECT_VERSION} ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
foreach(file IN LISTS shared)
  file(SHA256 "${file}" hash)
  string(APPEND text " ${hash}")
endforeach()
string(SHA256 build_id "${text}")
string(SUBSTRING "${build_id}" 0 16 build_id)
set_source_files_properties(src/runtime/plugin.cpp src/backends/cuda/cuda.cpp PROPERTIES
  COMPILE_DEFINITIONS "TRAINGRAPH_BUILD_ID=\"${build_id}\"")
set(TRAINGRAPH_BUILD_ID "${build_id}" PARENT_SCOPE)
