# Keeps what ptxas says about every kernel, and the seconds nvcc took, for tests/kernels to judge:
# build/<preset>/kernels/<folder>.<file>.log.
string(APPEND CMAKE_CUDA_FLAGS " -Xptxas -v,--warn-on-spills,--warn-on-local-memory-usage")
# The cubins lie uncompressed in the objects, so that a test can count their instructions.
string(APPEND CMAKE_CUDA_FLAGS " --no-compress")

set(OCTET_KERNEL_LOGS ${PROJECT_BINARY_DIR}/kernels)
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_LIST_DIR}/OctetKernelsRecord.py ${OCTET_KERNEL_LOGS})
endif()
