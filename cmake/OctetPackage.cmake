# `cpack` in the build folder: octet_<version>_<architecture>.deb with everything that is installed.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME octet)
set(CPACK_PACKAGE_VENDOR "octet")
set(CPACK_PACKAGE_CONTACT "The octet developers <octet@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Block-scaled FP8 operators for training large language models")
set(CPACK_PACKAGE_DESCRIPTION
"The octet library (shared and static, C and C++) with its headers, and the octet
command, which checks and times every operator on the CPU and on NVIDIA Hopper GPUs.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/debian_files.cmake)
set(CPACK_OCTET_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)

find_program(OCTET_SHLIBDEPS dpkg-shlibdeps)
find_program(OCTET_FILE file)  # cpack finds programs and libraries with it
if(OCTET_SHLIBDEPS AND OCTET_FILE)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})  # liboctet_whole.so
else()  # those of Debian 12
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6, libgcc-s1, libstdc++6, libfmt9")
endif()
include(CPack)
