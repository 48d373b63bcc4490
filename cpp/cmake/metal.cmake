# The Metal backend, a part of the core on macOS. With TRAINGRAPH_APPLE_DOUBLES it is built on Linux
# against the doubles of tests/apple.

# --- shaders -----------------------------------------------------------------------------------
# One text, in the library: Metal's compiler translates it on the machine that runs it.

set(shader_folder "${CMAKE_CURRENT_SOURCE_DIR}/src/backends/metal/shaders")
file(READ "${CMAKE_CURRENT_SOURCE_DIR}/src/ir/scalar.def" scalar_table)
set(shader_text "")
set(shader_files "${CMAKE_CURRENT_SOURCE_DIR}/src/ir/scalar.def")
foreach(name IN ITEMS arguments.h common.metal window.metal elementwise.metal reduce.metal
        matmul.metal convolution.metal pooling.metal batch_norm.metal softmax.metal
        cross_entropy.metal data_movement.metal indexing.metal dropout.metal
        half.metal)
  file(READ "${shader_folder}/${name}" text)
  list(APPEND shader_files "${shader_folder}/${name}")
  string(REPLACE "#include \"ir/scalar.def\"\n" "${scalar_table}" text "${text}")
  string(REGEX REPLACE "#include \"[a-z_/.]+\"\n|#pragma once\n" "" text "${text}")
  string(APPEND shader_text "// ${name}\n${text}\n")
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${shader_files})
set(shader_file "${CMAKE_CURRENT_BINARY_DIR}/shaders.metal")
file(CONFIGURE OUTPUT "${shader_file}" CONTENT "${shader_text}" @ONLY)
set(shader_source "${CMAKE_CURRENT_BINARY_DIR}/shader_text.cpp")
file(CONFIGURE OUTPUT "${shader_source}" @ONLY CONTENT
"#include \"backends/metal/device/shader_text.h\"

namespace traingraph::metal {

const char* const kShaderText = R\"msl(@shader_text@)msl\";

}  // namespace traingraph::metal
")

# --- sources -----------------------------------------------------------------------------------

file(GLOB_RECURSE metal_sources CONFIGURE_DEPENDS
  "${CMAKE_CURRENT_SOURCE_DIR}/src/backends/metal/*.cpp"
  "${CMAKE_CURRENT_SOURCE_DIR}/src/backends/metal/*.mm")
target_sources(traingraph_apple PRIVATE ${metal_sources} "${shader_source}")
set_property(SOURCE src/backends/registry.cpp APPEND PROPERTY COMPILE_DEFINITIONS TRAINGRAPH_METAL)

if(APPLE)
  target_link_libraries(traingraph_frameworks INTERFACE
    # A program without CoreGraphics has no default device.
    "-framework CoreGraphics" "-framework Foundation" "-framework Metal"
    "-framework MetalPerformanceShaders")
else()
  include("${PROJECT_SOURCE_DIR}/tests/apple/shim/shim.cmake")
  add_shaders_as_cpp(traingraph_apple "${shader_file}")
  target_link_libraries(traingraph_frameworks INTERFACE apple_doubles)
  install(TARGETS apple_doubles LIBRARY DESTINATION lib)
endif()
