# The BNNS backend: on a Mac over Accelerate, elsewhere over a double of it, which is for tests alone.

file(GLOB bnns_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/src/backends/bnns/*.cpp")
target_sources(traingraph_apple PRIVATE ${bnns_sources})
set_property(SOURCE src/backends/registry.cpp APPEND PROPERTY COMPILE_DEFINITIONS TRAINGRAPH_BNNS)

if(APPLE)
  # BNNS's layers are deprecated from macOS 15 on, without a successor that trains, and the BLAS that
  # macOS 12 has from 13.3 on.
  set_source_files_properties(${bnns_sources} PROPERTIES
    COMPILE_OPTIONS -Wno-deprecated-declarations)
  target_link_libraries(traingraph_frameworks INTERFACE "-framework Accelerate")
else()
  add_subdirectory("${PROJECT_SOURCE_DIR}/tests/apple/accelerate" "${PROJECT_BINARY_DIR}/accelerate")
  target_link_libraries(traingraph_frameworks INTERFACE accelerate_double)
endif()
