#!/bin/sh
# Runs examples/bench_my_kernel.cpp and checks its output: the table, the CSV and the cache.
# usage: bench_my_kernel.sh PROGRAM
set -eu
program=$1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "bench_my_kernel: $*"; cat "$work/out" "$work/err"; exit 1; }

"$program" "$work/cache" "$work/x.csv" >"$work/out" 2>"$work/err" || die "exit status $?"
# Units fit the values: the machine may be busy.
head -n 1 "$work/out" |
  grep -Eq '^shape +check +(us|ms|s) +[MGT]B/s +copy [MGT]B/s +of a copy +spread %' || die "no table"
grep -Eq '^1x4194304 +PASS +[0-9]' "$work/out" || die "no row with PASS and a time"
grep -qx '1 PASS, 0 FAIL, 0 ERROR' "$work/out" || die "no counts"
test ! -s "$work/err" || die "something on stderr"

head -n 1 "$work/x.csv" | grep -q '^TestID,Platform,GPU,Rows,Cols,Dtype,' || die "no header"
grep -Eq '^1,cpu,none,1,4194304,f32,,,,PASS,.*,saxpy,block=(16|256|4096),' "$work/x.csv" ||
  die "no row"
grep -q "^saxpy --n 4194304	.*	-	1	kernel	block=" "$work/cache" || die "the choice was not kept"

# The results are printed even if the CSV cannot be written.
status=0
"$program" "$work/cache" "$work/none/x.csv" >"$work/out" 2>"$work/err" || status=$?
test $status = 1 || die "exit status $status where the CSV cannot be written"
grep -qx '1 PASS, 0 FAIL, 0 ERROR' "$work/out" || die "no table where the CSV cannot be written"
test "$(cat "$work/err")" = \
  "bench_my_kernel: cannot write $work/none/x.csv: No such file or directory" || die "no reason"
