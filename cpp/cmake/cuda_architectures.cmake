# Which GPUs the CUDA plugin has code for. As a script it prints the entries of the default that
# serve GPUs of these compute capabilities: cmake -DGPUS="9.0;8.6" -P cuda_architectures.cmake
cmake_policy(VERSION 3.25...4.0)

# The machine code of these, of 9.0 with what only it has, and what a driver compiles for later ones.
set(default_cuda_architectures 80-real 86-real 89-real 90a-real 90-virtual)

# Of each GPU: the newest machine code that runs on it, else what its driver compiles.
function(default_cuda_architectures_for result gpus)
  set(found "")
  foreach(gpu IN LISTS gpus)
    string(REPLACE "." "" gpu "${gpu}")
    math(EXPR major "${gpu} / 10")
    set(best "")
    foreach(entry IN LISTS default_cuda_architectures)
      string(REGEX MATCH "^[0-9]+" number "${entry}")
      if(number GREATER gpu OR (entry MATCHES "a-real" AND NOT number EQUAL gpu))
        continue()
      endif()
      if(entry MATCHES "^${major}[0-9]a?-real" OR (entry MATCHES "virtual" AND NOT best))
        set(best ${entry})
      endif()
    endforeach()
    if(NOT best)
      message(FATAL_ERROR "No entry of ${default_cuda_architectures} serves compute capability ${gpu}")
    endif()
    list(APPEND found ${best})
  endforeach()
  list(REMOVE_DUPLICATES found)
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

# What is built where somebody asks for these: machine code for 9.0 is that of 90a, which runs on
# all that 90's runs on. `native` is what CMake has found this machine's GPUs to be.
function(chosen_cuda_architectures result asked native)
  if(asked STREQUAL "native")
    set(asked "${native}")
    if(NOT asked MATCHES "^[0-9]+")  # nothing, or what the driver says
      message(WARNING "CMAKE_CUDA_ARCHITECTURES is native, but no GPU was found: the CUDA plugin "
        "is built for ${default_cuda_architectures}")
      set(asked "${default_cuda_architectures}")
    endif()
  endif()
  if(NOT asked MATCHES "90a")
    list(TRANSFORM asked REPLACE "^90-real$" "90a-real")
    list(TRANSFORM asked REPLACE "^90$" "90a-real;90-virtual")
  endif()
  if(NOT asked MATCHES "90a")
    set(kind STATUS)
    if(asked MATCHES "90|all")
      set(kind WARNING)
    endif()
    message(${kind} "The CUDA plugin will lack kernels for Hopper GPUs (H100, H200), which need "
      "90a-real in CMAKE_CUDA_ARCHITECTURES: ${asked}")
  endif()
  set(${result} "${asked}" PARENT_SCOPE)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  default_cuda_architectures_for(found "${GPUS}")
  execute_process(COMMAND "${CMAKE_COMMAND}" -E echo "${found}")
endif()
