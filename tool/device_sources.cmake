# Hashes of the sources that decide what an operator runs on a GPU, one per operator: 12 hexadecimal
# digits, of paths and contents in order, and so the same in every checkout. Of an operator count
#   the files of src/device itself, which is the runtime of all;
#   the kernels and configurations in the folders of src/ops named below;
#   what these include of the folders of src/device, with the sources beside it, and of other kernels.
#   cmake -DSOURCE_DIR=... -DOP=gemm -P device_sources.cmake          prints the hash of an operator
#   cmake -DSOURCE_DIR=... -DOUTPUT=header -P device_sources.cmake    writes those of all, and leaves
#                                    the file alone where nothing changed: nothing is compiled again
cmake_policy(VERSION 3.25)
set(folders_gemm gemm quantize)
set(folders_quantize gemm quantize)  # published with the layers they are a part of
set(folders_fp8_linear gemm quantize)
set(folders_rms_norm rms_norm quantize)
set(folders_rope rope quantize)
set(folders_rms_norm_rope rms_norm_rope quantize)
set(folders_gated_activation gated_activation quantize)
set(folders_gated_mlp gated_mlp gated_activation gemm quantize)
set(ops gemm quantize fp8_linear rms_norm rope rms_norm_rope gated_activation gated_mlp)

# What `path` includes that counts, relative to SOURCE_DIR.
function(find_included path result)
  file(STRINGS ${SOURCE_DIR}/${path} lines REGEX "^#include \"(device/[^/\"]+/|ops/.+\\.cuh\")")
  set(found "")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^#include \"([^\"]+)\".*" "src/\\1" file "${line}")
    if(file MATCHES "^src/device/")
      string(REGEX REPLACE "\\.[a-z]+$" ".*" file "${file}")
    endif()
    file(GLOB files RELATIVE ${SOURCE_DIR} ${SOURCE_DIR}/${file})
    list(APPEND found ${files})
  endforeach()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

function(find_sources op result)
  file(GLOB files RELATIVE ${SOURCE_DIR} ${SOURCE_DIR}/src/device/*.*)
  foreach(folder IN LISTS folders_${op})
    set(at ${SOURCE_DIR}/src/ops/${folder})
    file(GLOB own RELATIVE ${SOURCE_DIR}
      ${at}/*.cu ${at}/*.cuh ${at}/*_config.* ${at}/*_choose.* ${at}/*_pinned.* ${at}/*_layout.*
      ${at}/*_roles.*)
    list(APPEND files ${own})
  endforeach()
  set(unread ${files})
  while(unread)
    list(POP_FRONT unread path)
    find_included(${path} included)
    list(REMOVE_ITEM included ${files} "")
    list(APPEND unread ${included})
    list(APPEND files ${included})
  endwhile()
  list(REMOVE_DUPLICATES files)
  list(SORT files)
  set(${result} ${files} PARENT_SCOPE)
endfunction()

function(hash_sources op result)
  find_sources(${op} files)
  set(all "")
  foreach(path IN LISTS files)
    file(SHA256 ${SOURCE_DIR}/${path} hash)
    string(APPEND all "${path} ${hash}\n")
  endforeach()
  string(SHA256 hash "${all}")
  string(SUBSTRING ${hash} 0 12 hash)
  set(${result} ${hash} PARENT_SCOPE)
endfunction()

if(OUTPUT)
  set(entries "")
  foreach(op IN LISTS ops)
    hash_sources(${op} hash)
    string(APPEND entries "    {\"${op}\", \"${hash}\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT
"#pragma once
// Of every operator.
struct OctetDeviceSources {
  const char* op;
  const char* hash;
};
inline constexpr OctetDeviceSources kOctetDeviceSources[] = {
${entries}};
")
else()
  hash_sources(${OP} hash)
  execute_process(COMMAND ${CMAKE_COMMAND} -E echo ${hash})
endif()
