#!/bin/sh
# A library exports exactly what its headers declare with OCTET_API, and needs only the C++ runtime
# to load.
# usage: exports.sh LIBRARY SONAME NAMES HEADER...
#   NAMES   what may be exported, as an extended regular expression
set -eu
library=$1 soname=$2 allowed=$3
shift 3

names=$(nm -D --defined-only "$library" | awk '{print $3}' | sed 's/@.*//' | c++filt)
foreign=$(printf '%s\n' "$names" | grep -vE "^($allowed)\$" || true)
test -z "$foreign" || { printf 'foreign names are exported:\n%s\n' "$foreign"; exit 1; }

# plan_gemm of "OCTET_API GemmPlan plan_gemm(" and Tensor of "class OCTET_API Tensor {"
declared=$(cat "$@" | tr '\n' ' ' | grep -oE 'OCTET_API [^;{(]*' |
  sed -E 's/ : .*//; s/ +$//; s/.*[ *&]//' | grep -vE '^operator' | sort -u)
# plan_gemm of "octet::plan_gemm(...)" and Tensor::Tensor of "octet::Tensor::Tensor(...)"
exported=$(printf '%s\n' "$names" | sed -E 's/^(typeinfo|vtable|typeinfo name) for //' |
  sed -E 's/^octet::(bench::)?//; s/[[(].*//' | grep -v operator | sort -u)
for name in $declared; do
  printf '%s\n' "$exported" | grep -qE "(^|::)$name(::|\$)" ||
    { echo "$name is declared and not exported"; exit 1; }
done
for name in $exported; do
  printf '%s\n' "$name" | sed 's/::/\n/g' | grep -qxF "$declared" ||
    { echo "$name is exported and not declared"; exit 1; }
done

needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p')
surplus=$(printf '%s\n' "$needed" | grep -vE \
  '^(libstdc\+\+|libgcc_s|libm|libc|libpthread|libdl|librt|ld-linux-x86-64|libasan|libubsan|libtsan)\.so' ||
  true)
test -z "$surplus" || { printf '%s needs more than it may:\n%s\n' "$library" "$surplus"; exit 1; }
readelf -d "$library" | grep -qF "[$soname]" || { echo "no SONAME $soname"; exit 1; }
echo "$(printf '%s\n' "$names" | wc -l) names exported, all of octet's API"
