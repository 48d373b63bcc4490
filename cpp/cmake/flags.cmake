# Flags of our own sources, and what every compiled part of the core needs.

add_library(traingraph_flags INTERFACE)
target_compile_options(traingraph_flags INTERFACE
  -Wall -Wextra $<$<BOOL:${TRAINGRAPH_WERROR}>:-Werror>
  # GCC 12 sees overlapping copies in operator+ of std::string where there are none (PR 105651).
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>
  # The sort of GCC 12's standard library calls what C++17 deprecates; Clang reports it at the caller.
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-deprecated-declarations>
  # Never -ffast-math: it removes NaN tests and changes the rounding mode of the importing process.
  -fno-math-errno
  # Messages with __FILE__ name the file within the project, not within the builder's disk.
  "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=")

# A class without virtual functions of its own in a source has a vtable in the core and another in
# the bindings, which hide it: a cast that compares vtables would take them for two classes.
include(CheckCXXCompilerFlag)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  check_cxx_compiler_flag(-fno-assume-unique-vtables TRAINGRAPH_HAS_UNIQUE_VTABLES)
  if(TRAINGRAPH_HAS_UNIQUE_VTABLES)
    target_compile_options(traingraph_flags INTERFACE
      $<$<COMPILE_LANGUAGE:CXX,OBJCXX>:-fno-assume-unique-vtables>)
  endif()
endif()

# Of sources that run rarely and are compiled often. GCC does less for -Og than for -O1, and inlining
# functions that are called once leaves less to compile.
set(size_optimized -O1)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(size_optimized -Og -finline-functions-called-once -ftree-sra)
endif()
add_library(traingraph_size_optimized INTERFACE)
target_compile_options(traingraph_size_optimized INTERFACE "$<$<CONFIG:Release>:${size_optimized}>")

if(TRAINGRAPH_SANITIZE)
  list(JOIN TRAINGRAPH_SANITIZE "," sanitizers)
  target_compile_options(traingraph_flags INTERFACE
    -fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(traingraph_flags INTERFACE -fsanitize=${sanitizers})
endif()

# Builds that are given away make what a mistake of ours could be used for harder: a guard in frames
# with arrays, checked sizes in calls of the C library, functions that are entered at their begin
# alone, and tables of addresses that are read-only once the library is loaded.
if(LINUX AND NOT TRAINGRAPH_SANITIZE)
  set(hardening -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
  check_cxx_compiler_flag(-fcf-protection=full TRAINGRAPH_HAS_CF_PROTECTION)
  if(TRAINGRAPH_HAS_CF_PROTECTION)
    list(APPEND hardening -fcf-protection=full)
  endif()
  # One that checks needs an optimizer.
  set(given_away $<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<CONFIG:Debug>>>)
  target_compile_options(traingraph_flags INTERFACE "$<${given_away}:${hardening}>")
  target_link_options(traingraph_flags INTERFACE LINKER:-z,relro LINKER:-z,now)
endif()

# Lets a target export what this file of cpp/cmake lists. Apple's linker has no such lists: there
# hidden visibility, the preset of all targets, has to do.
function(target_exports target list)
  if(NOT APPLE)
    set(file "${PROJECT_SOURCE_DIR}/cpp/cmake/${list}")
    target_link_options(${target} PRIVATE "LINKER:--version-script=${file}")
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${file}")
  endif()
endfunction()

# For targets that are part of the core or look inside it.
add_library(traingraph_internals INTERFACE)
target_compile_features(traingraph_internals INTERFACE cxx_std_20)
target_compile_definitions(traingraph_internals INTERFACE TRAINGRAPH_BUILDING)
target_include_directories(traingraph_internals INTERFACE
  "${PROJECT_SOURCE_DIR}/cpp/include" "${PROJECT_SOURCE_DIR}/cpp/src")
if(NOT TRAINGRAPH_PORTABLE)
  # OpenMP's flags are for sources that use it alone. The others are compiled by the same words in a
  # portable build, so that a compiler cache knows them.
  set(TRAINGRAPH_KERNEL_LIBRARIES $<LINK_ONLY:OpenMP::OpenMP_CXX>)
endif()
if(TRAINGRAPH_ONEDNN)
  # Headers of oneDNN are for the kernels alone: the others are the same objects with any oneDNN.
  list(PREPEND TRAINGRAPH_KERNEL_LIBRARIES $<LINK_ONLY:traingraph::dnnl>)
endif()
target_link_libraries(traingraph_internals INTERFACE
  ${TRAINGRAPH_KERNEL_LIBRARIES} Threads::Threads ${CMAKE_DL_LIBS} traingraph_flags)

# Hand-written vectorised loops exist once per x86-64 level, elsewhere once as `generic`.
set(TRAINGRAPH_ISA_LEVELS generic)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$" AND NOT TRAINGRAPH_PORTABLE)
  set(TRAINGRAPH_ISA_LEVELS v2 v3 v4)
  set_source_files_properties(src/backends/cpu/isa_select.cpp
    PROPERTIES COMPILE_DEFINITIONS TRAINGRAPH_X86_LEVELS)
endif()
