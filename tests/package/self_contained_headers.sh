#!/bin/sh
# Compiles every public header by itself: the C++ ones as C++20, the C ones as C99 and as C++.
# usage: self_contained_headers.sh INCLUDE_DIR CC CXX
set -eu
include=$1 cc=$2 cxx=$3
warnings="-Wall -Wextra -Werror -pedantic -fsyntax-only"
count=0

compile() {  # compiler standard language header
  printf '#include <%s>\ntypedef int not_empty;\n' "$4" | "$1" "-std=$2" -x "$3" $warnings -I"$include" - ||
    { echo "$4 does not compile on its own as $2"; exit 1; }
  count=$((count + 1))
}

for path in $(cd "$include" && find octet -name '*.hpp' -o -name '*.h' | sort); do
  case $path in
    *.h)
      compile "$cc" c99 c "$path"
      compile "$cxx" c++20 c++ "$path" ;;
    */dlpack.hpp)
      if printf '#include <dlpack/dlpack.h>\n' | "$cxx" -x c++ -fsyntax-only - 2>/dev/null; then
        compile "$cxx" c++20 c++ "$path"
      else
        echo "$path: skipped, there is no <dlpack/dlpack.h>"
      fi ;;
    *) compile "$cxx" c++20 c++ "$path" ;;
  esac
done
test "$count" -ge 15
echo "$count headers compile on their own"
