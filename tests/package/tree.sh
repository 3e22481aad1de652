#!/bin/sh
# Checks an installed tree: every file is there, the octet command runs, and liboctet.a keeps the
# CUDA runtime to itself.
# usage: tree.sh PREFIX VERSION
set -eu
prefix=$1 version=$2
die() { echo "$prefix: $*"; exit 1; }

libdir=$(dirname "$(find "$prefix" -name liboctet.so)")
test "$(readlink "$libdir/liboctet.so")" = liboctet.so.0 || die "liboctet.so is no link to liboctet.so.0"
for file in bin/octet include/octet/octet.h include/octet/octet.hpp include/octet/bench.hpp \
  share/doc/octet/LICENSE "${libdir#"$prefix"/}/liboctet.a" "${libdir#"$prefix"/}/pkgconfig/octet.pc" \
  "${libdir#"$prefix"/}/cmake/octet/octetConfig.cmake"; do
  test -s "$prefix/$file" || die "no $file"
done

# The tool must not find the libraries of the build folder.
runpath=$(readelf -d "$prefix/bin/octet" | sed -n 's/.*(RUNPATH).*\[\(.*\)\]/\1/p')
case $runpath in
  '$ORIGIN/'*) ;;
  *) die "bin/octet looks for its libraries in \"$runpath\"" ;;
esac
export OCTET_HISTORY=none
said=$("$prefix/bin/octet" --version) || die "octet --version failed"
case $said in
  "octet $version"*) ;;
  *) die "octet --version printed \"$said\"" ;;
esac
out=$("$prefix/bin/octet" check gemm --shape 64x64x64 --device cpu 2>&1) || die "octet check failed: $out"
printf '%s\n' "$out" | grep -q '1 PASS, 0 FAIL' || die "octet check printed: $out"

# As the command prints them; cpack packs the manual.
manual=$prefix/share/man/man1/octet.1
test ! -f "$manual.gz" || manual=$manual.gz
test "$(zcat -f "$manual")" = "$("$prefix/bin/octet" manual)" || die "no manual in share/man/man1"
for shell in bash:bash-completion/completions/octet zsh:zsh/site-functions/_octet \
  fish:fish/vendor_completions.d/octet.fish; do
  test -s "$prefix/share/${shell#*:}" || die "no share/${shell#*:}"
  test "$(cat "$prefix/share/${shell#*:}")" = "$("$prefix/bin/octet" completions "${shell%%:*}")" ||
    die "share/${shell#*:} is not what octet completions ${shell%%:*} prints"
done

# Names of the CUDA runtime and the driver: cuda*, __cuda*, cu*.
names='^(__)?cu(da)?[A-Z]'
surplus=$(nm -g "$libdir/liboctet.a" 2>/dev/null | awk 'NF > 1 {print $NF}' | grep -E "$names" || true)
test -z "$surplus" || { printf '%s\n' "$surplus" | head -n 5; die "liboctet.a has global names of CUDA"; }
foreign=$(nm -g --defined-only "$libdir/liboctet.a" | awk 'NF == 3 && $2 ~ /[TDBR]/ {print $3}' |
  grep -v octet || true)
test -z "$foreign" || { printf '%s\n' "$foreign" | head -n 5; die "liboctet.a has foreign global names"; }
