# The rows of operators (core/graph/op_rules.h), for modules that ask for gradients.
file(GLOB PENSTOCK_OPERATOR_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/core/graph/ops/*.c
  ${PROJECT_SOURCE_DIR}/core/graph/op_rules.c ${PROJECT_SOURCE_DIR}/core/base/text.c)
# penstock_add_module(KIND ID SOURCES ...): device-cpu.so, transport-threads.so. A module imports nothing
# from the program: it brings a copy of what it uses of core.
function(penstock_add_module kind id)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;INCLUDE" ${ARGN})
  set(target ${kind}-${id})
  add_library(${target} MODULE ${ARG_SOURCES} ${PROJECT_SOURCE_DIR}/core/base/memory.c)
  set_target_properties(${target} PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden)
  penstock_ship(${target})
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}
    ${PROJECT_SOURCE_DIR}/core ${PROJECT_SOURCE_DIR}/plugins ${ARG_INCLUDE})
  target_link_libraries(${target} PRIVATE penstock_flags penstock_abi Threads::Threads ${ARG_LINK} m)
endfunction()
