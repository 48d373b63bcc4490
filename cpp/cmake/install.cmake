# One layout for `cmake --install` and for the package directory inside the wheel.
include(CMakePackageConfigHelpers)

set(package_directory lib/cmake/traingraph)

install(TARGETS traingraph EXPORT traingraph-targets
  LIBRARY DESTINATION lib ARCHIVE DESTINATION lib)
if(TRAINGRAPH_ONEDNN STREQUAL "package")
  get_target_property(private_library traingraph::dnnl IMPORTED_LOCATION)
  install(FILES "${private_library}" DESTINATION lib)
endif()
install(DIRECTORY include/traingraph DESTINATION include FILES_MATCHING PATTERN "*.h")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/third_party/licenses/" DESTINATION share/licenses/traingraph)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION share/licenses/traingraph)

install(EXPORT traingraph-targets NAMESPACE traingraph:: DESTINATION ${package_directory})
configure_package_config_file(cmake/traingraph-config.cmake.in
  "${PROJECT_BINARY_DIR}/traingraph-config.cmake"
  INSTALL_DESTINATION ${package_directory})
# Before 1.0 a new minor version may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/traingraph-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/traingraph-config.cmake"
  "${PROJECT_BINARY_DIR}/traingraph-config-version.cmake"
  DESTINATION ${package_directory})
