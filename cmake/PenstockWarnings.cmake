# Warnings and hardening for every target of this project; a user's build never fails on a warning.
add_library(penstock_flags INTERFACE)
target_compile_options(penstock_flags INTERFACE
  -Wall -Wextra -Wshadow -Wvla -Wwrite-strings -Wundef -fno-strict-aliasing -ffp-contract=off
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith>
  $<$<C_COMPILER_ID:Clang>:-Wno-missing-field-initializers -Wno-unused-parameter>
  $<$<BOOL:${PENSTOCK_WERROR}>:-Werror>
  -fstack-protector-strong)
target_link_options(penstock_flags INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack)
# Hundreds of test programs: where the developers' linker is there, it takes a third of the time. Not
# of modules, into which it links what tests/fault wraps though nothing asks for it.
find_program(PENSTOCK_LLD ld.lld)
if(PENSTOCK_WERROR AND PENSTOCK_LLD)
  add_link_options("$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-fuse-ld=lld;-Wl,--compress-debug-sections=zlib>")
endif()
if(PENSTOCK_SANITIZE)
  # A finding ends the program: one that only prints would pass unseen.
  target_compile_options(penstock_flags INTERFACE -fsanitize=${PENSTOCK_SANITIZE}
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(penstock_flags INTERFACE -fsanitize=${PENSTOCK_SANITIZE})
elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  target_compile_options(penstock_flags INTERFACE -D_FORTIFY_SOURCE=2)
endif()
target_compile_definitions(penstock_flags INTERFACE _GNU_SOURCE)
