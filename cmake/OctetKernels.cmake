# Keeps the output of ptxas for every kernel, and nvcc's compile time, for tests/kernels to judge:
# build/<preset>/kernels/<folder>.<file>.log.
string(APPEND CMAKE_CUDA_FLAGS " -Xptxas -v,--warn-on-spills,--warn-on-local-memory-usage")
# The objects hold their cubins uncompressed, so that instructions can be counted and hashed.
string(APPEND CMAKE_CUDA_FLAGS " --no-compress")

set(OCTET_KERNEL_LOGS ${PROJECT_BINARY_DIR}/kernels)
set(OCTET_KERNEL_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/kernels)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(CMAKE_CUDA_COMPILER_LAUNCHER ${Python3_EXECUTABLE} ${OCTET_KERNEL_SCRIPTS}/record.py
  ${PROJECT_SOURCE_DIR}/src ${OCTET_KERNEL_LOGS})

# octet_kernel_digests(HEADER OBJECTS): a digest of the machine code of each operator's kernels.
function(octet_kernel_digests header objects)
  set(table ${OCTET_KERNEL_SCRIPTS}/operators.json)
  add_custom_command(OUTPUT ${header}
    COMMAND ${Python3_EXECUTABLE} -B ${OCTET_KERNEL_SCRIPTS}/digest.py ${table} ${header} ${objects}
    DEPENDS ${objects} ${table} ${OCTET_KERNEL_SCRIPTS}/digest.py ${OCTET_KERNEL_SCRIPTS}/cubin.py
    COMMENT "Hashing kernels" COMMAND_EXPAND_LISTS VERBATIM)
endfunction()
