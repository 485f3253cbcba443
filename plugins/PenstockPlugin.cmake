# penstock_add_plugin(KIND ID SOURCES file...): a strategy plugin as <kind>-<id>.so with one exported
# symbol. The same function serves the plugins of the tree and, through find_package(penstock), those
# of others.
function(penstock_add_plugin kind id)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  set(target ${kind}-${id})
  add_library(${target} MODULE ${ARG_SOURCES})
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${target} SUFFIX ".so"
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden C_STANDARD 11)
  if(TARGET penstock_flags)
    target_link_libraries(${target} PRIVATE penstock_flags penstock_abi ${ARG_LINK})
    set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PENSTOCK_PLUGIN_DIR})
    install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/penstock)
  else()
    target_link_libraries(${target} PRIVATE penstock::abi ${ARG_LINK})
  endif()
  if(NOT PENSTOCK_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  target_link_options(${target} PRIVATE -Wl,-z,now)
endfunction()
