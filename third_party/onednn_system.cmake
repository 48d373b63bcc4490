# The system's oneDNN, 3.2 or newer, as traingraph::dnnl, under its own name.

include("${CMAKE_CURRENT_LIST_DIR}/find_onednn.cmake")
add_library(traingraph::dnnl INTERFACE IMPORTED GLOBAL)
target_link_libraries(traingraph::dnnl INTERFACE DNNL::dnnl)
set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_GLOBAL TRUE)
