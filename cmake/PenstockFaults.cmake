# PENSTOCK_FAULT's points that are calls of the system: everything that is linked in this tree calls
# the functions of tests/fault/fault_wrap*.c in their place.
if(PENSTOCK_FAULTS)
  add_library(penstock_faults STATIC ${PROJECT_SOURCE_DIR}/tests/fault/fault_wrap.c
    ${PROJECT_SOURCE_DIR}/tests/fault/fault_wrap_alloc.c
    ${PROJECT_SOURCE_DIR}/tests/fault/fault_wrap_host.c)
  set_target_properties(penstock_faults PROPERTIES C_VISIBILITY_PRESET hidden)
  target_include_directories(penstock_faults PRIVATE ${PROJECT_SOURCE_DIR}/core)
  target_compile_definitions(penstock_faults PRIVATE _GNU_SOURCE PENSTOCK_FAULTS)
  foreach(call
      malloc calloc realloc aligned_alloc strdup strndup asprintf __asprintf_chk open_memstream
      pst_arena_try _Znwm
      mmap pthread_create posix_spawn
      open openat pipe2 memfd_create fopen opendir realpath __realpath_chk __open_2
      read fgetc fgets __read_chk pread __pread_chk write pwrite
      ftruncate fflush fsync close fclose rename mkdir mkdtemp unlink rmdir
      dlopen lt_dlopenadvise lt_dlsym)
    target_link_options(penstock_flags INTERFACE LINKER:--wrap=${call})
  endforeach()
  target_link_options(penstock_flags INTERFACE LINKER:--export-dynamic-symbol=pst_fault_call)
  target_link_libraries(penstock_flags INTERFACE penstock_faults)
  # The points themselves, in whatever links core.
  add_library(penstock_fault_points STATIC ${PROJECT_SOURCE_DIR}/tests/fault/fault.c)
  target_include_directories(penstock_fault_points PRIVATE ${PROJECT_SOURCE_DIR}/core)
  target_compile_definitions(penstock_fault_points PRIVATE PENSTOCK_FAULTS)
  target_link_libraries(penstock_fault_points PRIVATE penstock_flags)
endif()
