#!/bin/sh
# Only octet's own names leave liboctet.so, and it loads with nothing but the C++ runtime.
# usage: exports.sh LIBRARY
set -eu
library=$1

names=$(nm -D --defined-only "$library" | awk '{print $3}' | sed 's/@.*//' | c++filt)
foreign=$(printf '%s\n' "$names" |
  grep -vE '^(octet_[a-z0-9_]+|octet::.*|(typeinfo|typeinfo name|vtable) for octet::.*)$' || true)
test -z "$foreign" || { printf 'foreign names are exported:\n%s\n' "$foreign"; exit 1; }
# Checks, dispatch and implementations are internal.
inside=$(printf '%s\n' "$names" | grep -E '^octet::(c_api|cuda|check|choose|parallel_for)' |
  grep -v '^octet::cuda_device_count' || true)
test -z "$inside" || { printf 'internal names are exported:\n%s\n' "$inside"; exit 1; }
for wanted in octet_plan_gemm octet_run_gemm octet_last_error 'typeinfo for octet::Error'; do
  printf '%s\n' "$names" | grep -qxF "$wanted" || { echo "$wanted is not exported"; exit 1; }
done

needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p')
surplus=$(printf '%s\n' "$needed" | grep -vE \
  '^(libstdc\+\+|libgcc_s|libm|libc|libpthread|libdl|librt|ld-linux-x86-64|libasan|libubsan|libtsan)\.so' ||
  true)
test -z "$surplus" || { printf 'liboctet.so needs more than it may:\n%s\n' "$surplus"; exit 1; }
readelf -d "$library" | grep -q 'SONAME.*\[liboctet\.so\.0\]' || { echo "no SONAME"; exit 1; }
echo "$(printf '%s\n' "$names" | wc -l) names exported, all of octet's API"
