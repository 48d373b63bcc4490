# Compiles a text of shaders as C++ and makes its kernels known to the double of Metal's library.
# Adds the sources to a target.

function(add_shaders_as_cpp target text)
  get_filename_component(name "${text}" NAME_WE)
  file(READ "${text}" source)
  string(REGEX MATCHALL "\nkernel void [a-z_0-9]+" kernels "${source}")
  set(entries "")
  foreach(kernel IN LISTS kernels)
    string(REGEX REPLACE "\nkernel void " "" kernel "${kernel}")
    string(APPEND entries "    {\"${kernel}\", shim::Entry<&${kernel}>::run},\n")
  endforeach()
  set(made "${CMAKE_CURRENT_BINARY_DIR}/${name}_as_cpp.cpp")
  file(CONFIGURE OUTPUT "${made}" @ONLY CONTENT
"// Generated from ${name}: the shaders as C++.
#include \"registry.h\"

#include <metal_stdlib>

namespace {
#include \"@text@\"

const shim::Kernels kernels({
@entries@});
}  // namespace
")
  target_sources(${target} PRIVATE "${made}")
  # Attributes such as [[buffer(0)]] mean something to Metal only.
  set_source_files_properties("${made}" PROPERTIES
    INCLUDE_DIRECTORIES "${CMAKE_CURRENT_FUNCTION_LIST_DIR}"
    COMPILE_OPTIONS "-Wno-attributes;-Wno-unknown-attributes;-Wno-unused-function;-ffp-contract=off"
    OBJECT_DEPENDS "${text}")
endfunction()
