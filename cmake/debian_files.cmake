# Run by cpack on the files it is about to pack: what Debian wants beyond an installed tree.
set(share ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share)

# The licence of octet, then those of the packages whose code is compiled into it.
set(copyright ${share}/doc/octet/copyright)
file(COPY_FILE ${CPACK_OCTET_LICENSE} ${copyright})
foreach(package libhwy-dev libcli11-dev libyaml-cpp-dev libcsv-dev libsqlite3-dev nlohmann-json3-dev
    libjs-chart.js)
  if(EXISTS /usr/share/doc/${package}/copyright)
    file(READ /usr/share/doc/${package}/copyright text)
    file(APPEND ${copyright} "\nOf code from ${package}:\n\n${text}")
  endif()
endforeach()
file(CHMOD ${copyright} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)

file(GLOB manuals ${share}/man/man1/*.1)
if(manuals)
  execute_process(COMMAND gzip -9n ${manuals} COMMAND_ERROR_IS_FATAL ANY)
endif()

# Folders that the builder's umask made private.
file(CHMOD_RECURSE ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
