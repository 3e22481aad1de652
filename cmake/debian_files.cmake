# Run by cpack on the files it is about to pack: what Debian wants beyond an installed tree.
set(share ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share)
file(COPY_FILE ${CPACK_OCTET_LICENSE} ${share}/doc/octet/copyright)
file(GLOB manuals ${share}/man/man1/*.1)
if(manuals)
  execute_process(COMMAND gzip -9n ${manuals} COMMAND_ERROR_IS_FATAL ANY)
endif()
# Folders that the builder's umask made private.
file(CHMOD_RECURSE ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
file(CHMOD ${share}/doc/octet/copyright PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
