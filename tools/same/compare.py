#!/usr/bin/env python3
"""Compares two recordings of record.py.

    compare.py OUT_BEFORE OUT_AFTER [--only PART,...] [--show 10]

Exit status 0: everything is equal. 1: something differs, or only one of the two recorded it.
"""
import argparse
import collections
import pathlib
import sys


def differences(before, after):
    """Lines only `before` has ("-") and lines only `after` has ("+"), each as often as it is missing."""
    missing = collections.Counter(before) - collections.Counter(after)
    added = collections.Counter(after) - collections.Counter(before)
    return [f"- {line}" for line in before if take(missing, line)] + [
        f"+ {line}" for line in after if take(added, line)
    ]


def take(counts, line):
    if counts[line] == 0:
        return False
    counts[line] -= 1
    return True


def in_pairs(lines):
    """Puts the old and new line of a fact together: they share the text up to the last ": "."""
    ranks = {}
    for line in lines:
        ranks.setdefault(line[2:].rsplit(": ", 1)[0], len(ranks))
    return sorted(lines, key=lambda line: ranks[line[2:].rsplit(": ", 1)[0]])


def compare_part(before, after):
    """The differences of one file of both folders. The order matters for all parts but kernels."""
    if not before.exists() or not after.exists():
        where = [path.parent for path in (before, after) if path.exists()]
        return [f"recorded only in {where[0]}" if where else "recorded in neither folder"]
    old, new = before.read_text().splitlines(), after.read_text().splitlines()
    found = in_pairs(differences(old, new))
    if not found and old != new and before.name != "kernels.txt":
        found = ["the same lines in another order"]
    return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("after", type=pathlib.Path)
    parser.add_argument("--show", type=int, default=10, help="differences printed per part [default: 10]")
    parser.add_argument("--only", help="parts, separated by commas [default: all that were recorded]")
    options = parser.parse_args()

    folders = (options.before, options.after)
    names = sorted({file.name for folder in folders for file in folder.glob("*.txt")})
    if options.only:
        names = [f"{part}.txt" for part in options.only.split(",")]
    if not names:
        raise SystemExit(f"compare.py: nothing recorded in {options.before} or {options.after}")
    different = []
    for name in names:
        found = compare_part(options.before / name, options.after / name)
        part = name.removesuffix(".txt")
        if not found:
            count = len((options.before / name).read_text().splitlines())
            print(f"same       {part}: {count} lines")
            continue
        different.append(part)
        print(f"DIFFERENT  {part}: {len(found)} differences")
        for line in found[: options.show]:
            print(f"  {line}")
        if len(found) > options.show:
            print(f"  ... {len(found) - options.show} more")
    if different:
        print(f"FAILED: {', '.join(different)} differ")
        return 1
    print("everything is the same")
    return 0


if __name__ == "__main__":
    sys.exit(main())
