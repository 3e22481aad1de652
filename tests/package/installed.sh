#!/bin/sh
# Installs octet to a fresh prefix, moves it, and uses it outside the tree: the octet command, the
# programs of consumer/ and all examples through find_package with the shared and the static library,
# and a C program through pkg-config with either, and linked statically as a whole.
# usage: installed.sh BUILD_DIR SOURCE_DIR CC CXX VERSION WITH_CUDA [FLAGS]
set -eu
build=$1 source=$2 cc=$3 cxx=$4 version=$5 cuda=$6 flags=${7:-}
here=$(dirname "$0")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "installed: $*"; exit 1; }
logged() { "$@" >"$work/log" 2>&1 || { cat "$work/log"; die "failed: $*"; }; }
expect() {  # TEXT COMMAND...
  wanted=$1
  shift
  got=$("$@") || die "$* failed"
  test "$got" = "$wanted" || die "$* printed \"$got\", wanted \"$wanted\""
}

for component in library bench tool; do
  logged cmake --install "$build" --prefix "$work/prefix" --component $component
done
# The installed tree must work wherever it is put.
mv "$work/prefix" "$work/moved"
sh "$here/tree.sh" "$work/moved" "$version"
libdir=$(dirname "$(find "$work/moved" -name liboctet.so)")

cp -r "$source/tests/package/consumer" "$work/consumer"
cp "$source"/examples/*.c "$source"/examples/*.cpp "$work/consumer"
export CFLAGS="$flags" CXXFLAGS="$flags"
build_consumer() {  # FOLDER OPTION...
  folder=$1
  shift
  logged cmake -S "$work/consumer" -B "$folder" -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" \
    -DCMAKE_PREFIX_PATH="$work/moved" "$@"
  logged cmake --build "$folder" -j 2
}
build_consumer "$work/build" -DWITH_CUDA="$cuda"
build_consumer "$work/only_c" -DONLY_C=ON
for library in octet octet_static; do
  expect "y 3584" "$work/only_c/only_c_$library"
  expect "consumer: all right" "$work/build/main_cpp_$library"
  expect "y 3584  dx 56  dw 8" "$work/build/linear_cpp_$library"
  expect "y 3584" "$work/build/linear_c_$library"
  expect "y 192  dx 1152  dw_gate_up 768  dw_down 32" "$work/build/mlp_cpp_$library"
  if test "$cuda" = ON; then
    status=0
    "$work/build/linear_gpu_cpp_$library" >"$work/log" 2>&1 || status=$?
    test $status = 0 || test $status = 77 || { cat "$work/log"; die "linear_gpu_cpp_$library: status $status"; }
  fi
done
for program in "$work"/build/*_octet_static; do
  ! readelf -d "$program" | grep -q 'NEEDED.*octet' || die "$program loads a shared octet"
done
sh "$here/bench_my_kernel.sh" "$work/build/bench_my_kernel"

export PKG_CONFIG_PATH="$libdir/pkgconfig"
compile() {  # PROGRAM FLAGS_OF_OCTET
  # shellcheck disable=SC2086  # flags are lists
  "$cc" -std=c99 -pedantic -Wall -Wextra -Werror $flags "$work/consumer/linear.c" $2 -o "$work/$1"
}
compile shared "$(pkg-config --cflags --libs octet)"
LD_LIBRARY_PATH=$libdir expect "y 3584" "$work/shared"
compile static "$(pkg-config --cflags --libs octet-static)"
expect "y 3584" "$work/static"
if test -z "$flags" && test "$cuda" = OFF; then  # no sanitizer, and no runtime that loads a driver
  compile whole "-static $(pkg-config --static --cflags --libs octet)"
  expect "y 3584" "$work/whole"
fi
expect "$version" pkg-config --modversion octet
echo "installed octet $version: the command and all examples run, shared and static"
