#!/bin/sh
# Makes the .deb with cpack, unpacks it and runs the octet command in it.
# usage: deb.sh BUILD_DIR VERSION
set -eu
build=$1 version=$2
here=$(dirname "$0")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "deb: $*"; exit 1; }
umask 077  # must not show in the package
cpack --config "$build/CPackConfig.cmake" -B "$work/packed" >"$work/log" 2>&1 ||
  { cat "$work/log"; die "cpack failed"; }
package=$work/packed/octet_${version}_$(dpkg --print-architecture).deb
test -f "$package" || { ls "$work/packed"; die "no $(basename "$package")"; }

test "$(dpkg-deb -f "$package" Package Version)" = "Package: octet
Version: $version" || die "wrong name or version"
dpkg-deb -f "$package" Description | grep -q FP8 || die "no description"
depends=$(dpkg-deb -f "$package" Depends)
for needed in libc6 libstdc++6; do
  case $depends in
    *$needed*) ;;
    *) die "does not depend on $needed but on: $depends" ;;
  esac
done
dpkg-deb -c "$package" | awk '$1 !~ /^(drwxr-xr-x|-rwxr-xr-x|-rw-r--r--|lrwxrwxrwx)$/ {print; bad = 1} END {exit bad}' ||
  die "files with odd permissions"

dpkg-deb -x "$package" "$work/root"
sh "$here/tree.sh" "$work/root/usr" "$version"
doc=$work/root/usr/share/doc/octet
head -c "$(wc -c <"$doc/LICENSE")" "$doc/copyright" | cmp -s - "$doc/LICENSE" ||
  die "share/doc/octet/copyright does not begin with the licence"
for part in libhwy-dev libjs-chart.js; do  # in the library, in the tool
  grep -q "^Of code from $part:" "$doc/copyright" || die "no licence of $part"
done
echo "$(basename "$package"), $(($(wc -c <"$package") / 1000)) kB, depends on $depends"
