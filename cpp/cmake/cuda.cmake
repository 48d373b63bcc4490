# The CUDA backend as a plugin of its own, which the core loads on demand and never links. It holds
# copies of the few core sources it needs, because the core hides its internals.

file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS
  "${CMAKE_CURRENT_SOURCE_DIR}/src/backends/cuda/*.cpp"
  "${CMAKE_CURRENT_SOURCE_DIR}/src/backends/cuda/*.cu"
  "${CMAKE_CURRENT_SOURCE_DIR}/src/ir/*.cpp")
list(APPEND cuda_sources
  src/runtime/backend.cpp src/runtime/errors.cpp src/runtime/message_text.cpp
  src/runtime/types.cpp src/runtime/verbose.cpp
  src/runtime/numbers/finite.cpp src/runtime/threads/fork_guard.cpp src/runtime/threads/mutex.cpp)

add_library(traingraph_cuda MODULE ${cuda_sources})
target_compile_features(traingraph_cuda PRIVATE cxx_std_20)
target_compile_definitions(traingraph_cuda PRIVATE TRAINGRAPH_BUILDING)
if("${CMAKE_CUDA_ARCHITECTURES}" MATCHES "90a")
  target_compile_definitions(traingraph_cuda PRIVATE TRAINGRAPH_SM_90A)
endif()
string(REPLACE ";" " " architectures "${CMAKE_CUDA_ARCHITECTURES}")
set_property(SOURCE src/backends/cuda/cuda.cpp APPEND PROPERTY COMPILE_DEFINITIONS
  "TRAINGRAPH_CUDA_ARCHITECTURES=\"${architectures}\"")
target_include_directories(traingraph_cuda PRIVATE
  "${CMAKE_CURRENT_SOURCE_DIR}/include" "${CMAKE_CURRENT_SOURCE_DIR}/src")
target_include_directories(traingraph_cuda SYSTEM PRIVATE
  ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
target_compile_options(traingraph_cuda PRIVATE
  "$<$<COMPILE_LANGUAGE:CXX>:$<TARGET_PROPERTY:traingraph_flags,INTERFACE_COMPILE_OPTIONS>>"
  # The standard by its flag: CMake 3.25 does not know that nvcc 13 has it.
  "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr;-Xcompiler=-Wall,-Wextra,-fno-math-errno>"
  "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${TRAINGRAPH_WERROR}>>:-Werror=all-warnings>")
target_link_libraries(traingraph_cuda PRIVATE traingraph::nvidia Threads::Threads ${CMAKE_DL_LIBS})
target_exports(traingraph_cuda plugin_exports.map)
target_link_options(traingraph_cuda PRIVATE LINKER:-z,defs)
set_target_properties(traingraph_cuda PROPERTIES
  CUDA_RUNTIME_LIBRARY Static
  LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib"
  BUILD_WITH_INSTALL_RPATH ON
  # Packages beside ours in one site-packages; the core preloads those of other folders.
  INSTALL_RPATH "\$ORIGIN/../../nvidia/cu13/lib:\$ORIGIN/../../nvidia/cudnn/lib:\$ORIGIN/../../nvidia/nccl/lib")
install(TARGETS traingraph_cuda LIBRARY DESTINATION lib)
