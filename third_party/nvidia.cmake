# NVIDIA's libraries of the CUDA backend as traingraph::nvidia, out of their Python packages. Those
# have no .so links, so the libraries are linked by file name.

add_library(traingraph::nvidia INTERFACE IMPORTED GLOBAL)
function(add_nvidia_library package version header library)
  foreach(file IN ITEMS ${header} ${library})
    execute_process(
      COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/locate.py"
        ${package} ${file}
      OUTPUT_VARIABLE directory ERROR_VARIABLE error RESULT_VARIABLE result
      OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT result EQUAL 0)
      message(FATAL_ERROR "${error}Install it with: pip install ${package}==${version}")
    endif()
    if(file STREQUAL "${header}")
      target_include_directories(traingraph::nvidia SYSTEM INTERFACE "${directory}")
    else()
      target_link_libraries(traingraph::nvidia INTERFACE "${directory}/${library}")
    endif()
  endforeach()
endfunction()

add_nvidia_library(nvidia-cublas 13.1.0.3 cublasLt.h libcublasLt.so.13)
add_nvidia_library(nvidia-cudnn-cu13 9.19.0.56 cudnn.h libcudnn.so.9)
