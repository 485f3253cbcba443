# What people read, and the package. "cpack -G DEB" in the build folder writes penstock_VERSION_ARCH.deb,
# whose dependencies dpkg-shlibdeps finds. Modules for NVIDIA GPUs are not in it: no Debian package has what
# they link.
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
file(WRITE ${PROJECT_BINARY_DIR}/copyright "Copyright 2026 the authors of penstock\nLicense: Apache-2.0\n"
  "On Debian systems its text is in /usr/share/common-licenses/Apache-2.0.\n")
install(FILES ${PROJECT_BINARY_DIR}/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY configs DESTINATION ${CMAKE_INSTALL_DATADIR}/penstock)
# Pages link to configs beside them.
file(RELATIVE_PATH configs /${CMAKE_INSTALL_DOCDIR} /${CMAKE_INSTALL_DATADIR}/penstock/configs)
install(CODE "file(CREATE_LINK ${configs}
  \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DOCDIR}/configs\" SYMBOLIC)")
# Pages link to the README of each strategy, from where it stands here.
file(GLOB readmes CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/partitioners/*/README.md
  ${PROJECT_SOURCE_DIR}/schedulers/*/README.md ${PROJECT_SOURCE_DIR}/memopt/*/README.md)
foreach(readme ${readmes})
  get_filename_component(folder ${readme} DIRECTORY)
  install(FILES ${readme} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder})
endforeach()

set(CPACK_PACKAGE_NAME penstock)
set(CPACK_PACKAGE_VENDOR "penstock")
set(PENSTOCK_MAINTAINER "penstock developers <penstock@localhost>" CACHE STRING
  "Maintainer of the Debian package: Name <address>")
if(NOT PENSTOCK_MAINTAINER MATCHES "^[^<>]+ <[^<>@ ]+@[^<>@ ]+>$")
  message(FATAL_ERROR "PENSTOCK_MAINTAINER is \"${PENSTOCK_MAINTAINER}\"; want \"Name <address@host>\"")
endif()
set(CPACK_PACKAGE_CONTACT "${PENSTOCK_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Trains a neural network as a pipeline over many devices. Partitioners,
schedulers and memory optimizers are plugins that a TOML file names. Every
plan is proven legal, predicted and run: on CPUs, over MPI, or rehearsed
on emulated devices.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL Unspecified)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/PenstockDebian.cmake)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3") # penstock_from_torch.py
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "cmake, gcc, g++, openmpi-bin, pkg-config")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
include(CPack)
