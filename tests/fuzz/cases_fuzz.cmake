# The parsers of the tool, watched as the library is.
target_compile_options(octet_cases PRIVATE ${OCTET_FUZZ_CHECKS})
target_link_options(octet_cases INTERFACE -fsanitize=address,undefined)
set(extra_libraries octet_cases)
