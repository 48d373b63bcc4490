# Compiles sources of a target together that lie in one folder, so many at a time: what their
# headers cost is paid once for all of them. Such files share their anonymous namespaces, so names
# there differ.

# compile_together(<target> <count> <source>...)
function(compile_together target count)
  if(NOT TRAINGRAPH_UNITY)
    return()
  endif()
  set(last "")
  list(SORT ARGN)
  foreach(source IN LISTS ARGN)
    get_filename_component(folder "${source}" DIRECTORY)
    if(NOT folder STREQUAL last)
      set(last "${folder}")
      set(index 0)
      string(REGEX REPLACE ".*/(src|bindings)(/|$)" "" name "${folder}")
      string(REPLACE "/" "_" name "${name}")
    endif()
    math(EXPR group "${index} / ${count}")
    math(EXPR index "${index} + 1")
    set_property(SOURCE "${source}" PROPERTY UNITY_GROUP "${name}_${group}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# Parses the standard library once for a target, a quarter of what most of its sources cost. Not on
# a Mac, where it was never tried.
function(precompile target)
  if(NOT TRAINGRAPH_UNITY OR APPLE)
    return()
  endif()
  set(headers algorithm any array atomic cmath cstdint cstring functional limits map memory mutex
    numeric optional set span sstream string unordered_map utility variant vector)
  list(TRANSFORM headers REPLACE ".+" "<\\0>")
  target_precompile_headers(${target} PRIVATE ${headers})
endfunction()
