# Planning with memory optimizers: cmake --build --preset release --target bench-memopt
set(from ${CMAKE_CURRENT_LIST_DIR})
add_executable(bench-memopt EXCLUDE_FROM_ALL ${from}/planning.c ${from}/layers.c ${from}/quality.c)
target_compile_definitions(bench-memopt PRIVATE PENSTOCK_PLUGIN_DIR="${PENSTOCK_PLUGIN_DIR}")
target_include_directories(bench-memopt PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(bench-memopt PRIVATE penstock_core PkgConfig::JANSSON penstock_flags m)
add_dependencies(bench-memopt partitioner-dawnpiper scheduler-1f1b memopt-dawnpiper memopt-exact
  memopt-adapipe memopt-full)
