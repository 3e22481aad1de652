#!/bin/sh
# Only octet's own names leave a library, and it loads with nothing but the C++ runtime.
# usage: exports.sh LIBRARY SONAME NAMES WANTED...
#   NAMES   what may be exported, as an extended regular expression
#   WANTED  what has to be, one expression each
set -eu
library=$1 soname=$2 allowed=$3
shift 3

names=$(nm -D --defined-only "$library" | awk '{print $3}' | sed 's/@.*//' | c++filt)
foreign=$(printf '%s\n' "$names" | grep -vE "^($allowed)\$" || true)
test -z "$foreign" || { printf 'foreign names are exported:\n%s\n' "$foreign"; exit 1; }
# Checks, dispatch and implementations are internal.
inside=$(printf '%s\n' "$names" | grep -E '^octet::(c_api|cuda|check|choose|parallel_for)' |
  grep -v '^octet::cuda_device_count' || true)
test -z "$inside" || { printf 'internal names are exported:\n%s\n' "$inside"; exit 1; }
for wanted in "$@"; do
  printf '%s\n' "$names" | grep -qxE "$wanted" || { echo "$wanted is not exported"; exit 1; }
done

needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p')
surplus=$(printf '%s\n' "$needed" | grep -vE \
  '^(libstdc\+\+|libgcc_s|libm|libc|libpthread|libdl|librt|ld-linux-x86-64|libasan|libubsan|libtsan)\.so' ||
  true)
test -z "$surplus" || { printf '%s needs more than it may:\n%s\n' "$library" "$surplus"; exit 1; }
readelf -d "$library" | grep -qF "[$soname]" || { echo "no SONAME $soname"; exit 1; }
echo "$(printf '%s\n' "$names" | wc -l) names exported, all of octet's API"
