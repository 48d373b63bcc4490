# Every source below src/backends/cpu/isa is compiled once per level, into the namespace that
# TRAINGRAPH_ISA names. Sets isa_libraries, lowest level first.

set(isa_flags_v2 -march=x86-64-v2)
set(isa_flags_v3 -march=x86-64-v3)
set(isa_flags_v4 -march=x86-64-v4 -mprefer-vector-width=512)

file(GLOB_RECURSE isa_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/src/backends/cpu/isa/*.cpp")
set(isa_libraries "")
if(isa_sources)
  foreach(level IN LISTS TRAINGRAPH_ISA_LEVELS)
    set(library traingraph_isa_${level})
    add_library(${library} OBJECT ${isa_sources})
    target_link_libraries(${library} PRIVATE traingraph_internals)
    target_compile_definitions(${library} PRIVATE TRAINGRAPH_ISA=${level})
    # -O3 also in debug builds: without inlining, shared templates would become functions that use
    # the level's instructions. -fno-trapping-math lets comparisons vectorise.
    target_compile_options(${library} PRIVATE
      ${isa_flags_${level}} -O3 -fno-math-errno -fno-trapping-math -fopenmp-simd
      # Clang says where a loop stays scalar: that is slower there, and no mistake.
      $<$<CXX_COMPILER_ID:Clang,AppleClang>:-Wno-pass-failed>)
    compile_together(${library} 20 ${isa_sources})
    list(APPEND isa_libraries ${library})
  endforeach()
endif()
