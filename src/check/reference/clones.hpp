// Functions compiled once per instruction set and chosen when the program is loaded. For test data
// and references alone: operators choose through dispatch. Sanitizers start after that choice is
// made, so their builds have the plain version, with the same results.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define OCTET_CPU_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define OCTET_CPU_CLONES
#endif
