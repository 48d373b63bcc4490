# Copies headers of a Python package into the build folder, where their content differs. A package of
# an isolated build lies in a temporary folder with another name each time; with its path in the
# compile commands, installing again would compile everything that includes it.

# copy_headers(<from> <to> <pattern>...): patterns are relative to <from>.
function(copy_headers from to)
  list(TRANSFORM ARGN PREPEND "${from}/" OUTPUT_VARIABLE patterns)
  file(GLOB_RECURSE headers RELATIVE "${from}" ${patterns})
  foreach(header IN LISTS headers)
    get_filename_component(folder "${to}/${header}" DIRECTORY)
    file(MAKE_DIRECTORY "${folder}")
    file(COPY_FILE "${from}/${header}" "${to}/${header}" ONLY_IF_DIFFERENT)
  endforeach()
endfunction()
