# Run by CPack on the folder that becomes the package: a changelog in Debian's form, which says where the
# changes are; it and manual pages compressed.
file(GLOB_RECURSE pages ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*.1)
file(GLOB_RECURSE changes ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/CHANGELOG.md)
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
foreach(file ${changes})
  string(REPLACE CHANGELOG.md changelog log ${file})
  file(WRITE ${log} "penstock (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n"
    "  * /usr/share/doc/penstock/CHANGELOG.md has the changes.\n\n -- ${CPACK_PACKAGE_CONTACT}  ${now}\n")
  list(APPEND pages ${log})
endforeach()
execute_process(COMMAND gzip -9nf ${pages} COMMAND_ERROR_IS_FATAL ANY)
