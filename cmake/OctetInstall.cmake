# Installs the libraries, their headers, a CMake package, a pkg-config file and the octet command.
# Nothing that a program links names a dependency: what liboctet.so, liboctet.a and liboctet_bench.so
# need is inside them or in the system's C++ runtime.
include(CMakePackageConfigHelpers)

set(OCTET_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/octet)

install(TARGETS octet octet_static EXPORT octetTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT library)
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
foreach(name octet octet-static)
  configure_file(cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/package/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/package/${name}.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
endforeach()

if(OCTET_BUILD_TOOL)
  # The command and the library of its own, which it finds wherever the tree is put.
  set(OCTET_PRIVATE_LIBDIR ${CMAKE_INSTALL_LIBDIR}/octet)
  file(RELATIVE_PATH OCTET_BIN_TO_PRIVATE
    /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${OCTET_PRIVATE_LIBDIR})
  set_target_properties(octet_tool PROPERTIES INSTALL_RPATH "$ORIGIN/${OCTET_BIN_TO_PRIVATE}")
  install(TARGETS octet_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tool)
  install(TARGETS octet_whole LIBRARY DESTINATION ${OCTET_PRIVATE_LIBDIR} COMPONENT tool)

  # octet_tool_page(ARGUMENTS FILE DESTINATION): what `octet ARGUMENTS` prints, as an installed file.
  function(octet_tool_page arguments file destination)
    set(page ${PROJECT_BINARY_DIR}/package/${file})
    separate_arguments(arguments UNIX_COMMAND ${arguments})
    add_custom_command(OUTPUT ${page} COMMAND octet_tool ${arguments} > ${page}
      DEPENDS octet_tool COMMENT "Writing ${file}" VERBATIM)
    set_property(GLOBAL APPEND PROPERTY OCTET_TOOL_PAGES ${page})
    install(FILES ${page} DESTINATION ${destination} COMPONENT tool)
  endfunction()
  octet_tool_page("manual" octet.1 ${CMAKE_INSTALL_MANDIR}/man1)
  octet_tool_page("completions bash" octet ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  octet_tool_page("completions zsh" _octet ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  octet_tool_page("completions fish" octet.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
  get_property(pages GLOBAL PROPERTY OCTET_TOOL_PAGES)
  add_custom_target(octet_tool_pages ALL DEPENDS ${pages})
endif()
