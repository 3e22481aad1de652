# Writes OUTPUT with a hash of the sources that decide what runs on a GPU, and leaves it alone where
# nothing changed, so that nothing is compiled again. The hash is of paths and contents, in order,
# and so the same in every checkout; 12 hexadecimal digits.
#   cmake -DSOURCE_DIR=... [-DOUTPUT=header] -P device_sources.cmake      without OUTPUT: prints it
file(GLOB_RECURSE files RELATIVE ${SOURCE_DIR}
  ${SOURCE_DIR}/src/device/*
  ${SOURCE_DIR}/src/ops/*.cu ${SOURCE_DIR}/src/ops/*.cuh
  ${SOURCE_DIR}/src/ops/*_config.* ${SOURCE_DIR}/src/ops/*_choose.* ${SOURCE_DIR}/src/ops/*_pinned.*)
list(REMOVE_DUPLICATES files)
list(SORT files)
set(all "")
foreach(path ${files})
  file(SHA256 ${SOURCE_DIR}/${path} hash)
  string(APPEND all "${path} ${hash}\n")
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 12 hash)
if(OUTPUT)
  file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#pragma once\n#define OCTET_DEVICE_SOURCES \"${hash}\"\n")
else()
  execute_process(COMMAND ${CMAKE_COMMAND} -E echo ${hash})
endif()
