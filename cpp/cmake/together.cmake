# Compiles some of a target's sources together, so many at a time: what their headers cost is paid
# once for all of them. Such files share their anonymous namespaces, so names there differ.

# compile_together(<target> <name> <count> <source>...)
function(compile_together target name count)
  if(NOT TRAINGRAPH_TOGETHER)
    return()
  endif()
  set(index 0)
  foreach(source IN LISTS ARGN)
    math(EXPR group "${index} / ${count}")
    math(EXPR index "${index} + 1")
    set_property(SOURCE "${source}" PROPERTY UNITY_GROUP "${name}_${group}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
