# How every C++ file of octet is compiled.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})

# With ccache installed, nothing is compiled twice.
find_program(OCTET_CCACHE ccache)
if(OCTET_CCACHE)
  # ccache reads preprocessed text, in which GCC must name the precompiled header that was used.
  # Comments count: a header that differs only in comments makes another precompiled header.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_COMMENTS=1
    ${OCTET_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>")
endif()

add_library(octet_options INTERFACE)
# No contraction: a product and a sum are one rounding each unless fma is written.
target_compile_options(octet_options INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Werror -Wshadow -ffp-contract=off>
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Wsuggest-override>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 takes "text" + std::string for an overlapping copy (GCC bug 105651).
  target_compile_options(octet_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(OCTET_SANITIZE)
  # Compilers differ in what they warn about; in the plain builds warnings stay errors.
  target_compile_options(octet_options INTERFACE -Wno-error)
  target_compile_definitions(octet_options INTERFACE OCTET_SANITIZED)
  add_compile_options(
    $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${OCTET_SANITIZE}>
    $<$<COMPILE_LANGUAGE:C,CXX>:-fno-omit-frame-pointer>
    $<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize-recover=all>)
  add_link_options(-fsanitize=${OCTET_SANITIZE})
endif()
