#!/bin/sh
# Installs octet to a fresh prefix, then builds and runs two C++ programs (through find_package), one
# of them with a kernel of its own to time, and a C program (through pkg-config) outside the tree.
# usage: installed.sh BUILD_DIR SOURCE_DIR CC CXX [FLAGS]
set -eu
build=$1 source=$2 cc=$3 cxx=$4 flags=${5:-}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for component in library bench; do
  cmake --install "$build" --prefix "$work/prefix" --component $component >"$work/install.log" ||
    { cat "$work/install.log"; exit 1; }
done
# The installed tree must work wherever it is put.
mv "$work/prefix" "$work/moved"
libdir=$(dirname "$(find "$work/moved" -name liboctet.so)")
test "$(readlink "$libdir/liboctet.so")" = liboctet.so.0

cp -r "$source/tests/package/consumer" "$work/consumer"
cp "$source/examples/bench_my_kernel.cpp" "$work/consumer"
CXXFLAGS=$flags cmake -S "$work/consumer" -B "$work/build" -DCMAKE_CXX_COMPILER="$cxx" \
  -DCMAKE_PREFIX_PATH="$work/moved" >"$work/configure.log" 2>&1 ||
  { cat "$work/configure.log"; exit 1; }
cmake --build "$work/build" >"$work/build.log" 2>&1 || { cat "$work/build.log"; exit 1; }
test "$("$work/build/consumer")" = "consumer: all right"
sh "$source/tests/package/bench_my_kernel.sh" "$work/build/bench_my_kernel"

cp "$source/examples/linear.c" "$work/linear.c"
octet_flags=$(PKG_CONFIG_PATH="$libdir/pkgconfig" pkg-config --cflags --libs octet)
# shellcheck disable=SC2086  # flags are lists
"$cc" -std=c99 -pedantic -Wall -Wextra -Werror $flags "$work/linear.c" $octet_flags \
  -o "$work/linear"
test "$(LD_LIBRARY_PATH=$libdir "$work/linear")" = "y 3584"
echo "installed octet $(PKG_CONFIG_PATH="$libdir/pkgconfig" pkg-config --modversion octet): C and C++ programs run"
