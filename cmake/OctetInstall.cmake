# Installs the libraries, their headers, a CMake package and a pkg-config file. Nothing installed
# names a dependency: what liboctet.so and liboctet_bench.so need is inside them or in the system's
# C++ runtime.
include(CMakePackageConfigHelpers)

set(OCTET_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/octet)

install(TARGETS octet EXPORT octetTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
install(DIRECTORY include/octet DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library
  PATTERN bench EXCLUDE PATTERN bench.hpp EXCLUDE)
install(EXPORT octetTargets NAMESPACE octet:: DESTINATION ${OCTET_CMAKE_DIR} COMPONENT library)

# find_package(octet COMPONENTS bench)
install(TARGETS octet_bench_shared EXPORT octetBenchTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT bench)
install(DIRECTORY include/octet/bench DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/octet COMPONENT bench)
install(FILES include/octet/bench.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/octet COMPONENT bench)
install(EXPORT octetBenchTargets NAMESPACE octet:: DESTINATION ${OCTET_CMAKE_DIR} COMPONENT bench)

configure_package_config_file(cmake/octetConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/octetConfig.cmake INSTALL_DESTINATION ${OCTET_CMAKE_DIR})
# Before 1.0 a minor version may change the API.
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/package/octetConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/package/octetConfig.cmake
  ${PROJECT_BINARY_DIR}/package/octetConfigVersion.cmake
  DESTINATION ${OCTET_CMAKE_DIR} COMPONENT library)

# Paths relative to the file itself, so that the installed tree can be moved.
file(RELATIVE_PATH OCTET_PC_TO_PREFIX
  /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/octet.pc.in ${PROJECT_BINARY_DIR}/package/octet.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/octet.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
