# oneDNN as DNNL::dnnl, by its own package files.

block(PROPAGATE DNNL_CPU_RUNTIME)
  # Those of 3.2 ask for the policies of CMake 2.6: CMake 4 refuses that, older ones complain.
  set(CMAKE_POLICY_VERSION_MINIMUM 3.10)
  if(CMAKE_VERSION VERSION_LESS 4)
    set(CMAKE_WARN_DEPRECATED OFF)
  endif()
  find_package(dnnl 3.2 CONFIG REQUIRED)
endblock()
if(NOT DNNL_CPU_RUNTIME STREQUAL "OMP")
  message(FATAL_ERROR "oneDNN must share the OpenMP runtime of the core, it uses ${DNNL_CPU_RUNTIME}")
endif()
