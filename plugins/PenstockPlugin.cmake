# penstock_add_plugin(KIND ID SOURCES file... [LINK library...] [SET key=value...]): a plugin
# as <kind>-<id>.so, a dot for a slash, with one exported symbol, and a test of that name that runs "penstock plugins
# check" on it, with these parameters. The same function serves the plugins of the tree and, through
# find_package(penstock), those of others.
function(penstock_add_plugin kind id)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;SET" ${ARGN})
  if(NOT kind MATCHES "^(partitioner|scheduler|memopt|model|data|operator)$")
    message(FATAL_ERROR "penstock_add_plugin: \"${kind}\" is no kind: partitioner, scheduler, memopt, model, data, operator")
  endif()
  if(NOT id MATCHES "^([a-z0-9-]+/)?[a-z0-9-]+$")
    message(FATAL_ERROR "penstock_add_plugin: an id has lower case, digits and hyphens, and who made it may stand before a slash: \"${id}\"")
  endif()
  string(REPLACE "/" "." target ${kind}-${id})
  set(settings)
  foreach(setting ${ARG_SET})
    list(APPEND settings --set ${setting})
  endforeach()
  add_library(${target} MODULE ${ARG_SOURCES})
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${target} SUFFIX ".so"
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    C_STANDARD 11 C_STANDARD_REQUIRED ON)
  # Every function is there when the file is linked and bound when it is loaded; what a static
  # library brings along stays inside.
  target_link_options(${target} PRIVATE -Wl,-z,now -Wl,--exclude-libs,ALL)
  if(NOT PENSTOCK_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  if(TARGET penstock_flags)
    target_link_libraries(${target} PRIVATE penstock_flags penstock_abi ${ARG_LINK})
    penstock_ship(${target})
    set_property(GLOBAL APPEND PROPERTY PENSTOCK_PLUGINS ${target}) # checked in tests/plugin
    set_property(TARGET ${target} PROPERTY PENSTOCK_CHECK "${settings}")
  else()
    include(GNUInstallDirs)
    target_link_libraries(${target} PRIVATE penstock::abi ${ARG_LINK})
    set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
    install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/penstock)
    add_test(NAME ${target} COMMAND penstock::penstock plugins check $<TARGET_FILE:${target}>
      ${settings})
  endif()
endfunction()
