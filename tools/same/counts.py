#!/usr/bin/env python3
"""Counts files and lines of a tree, to compare it before and after a redesign.

    counts.py TREE [TREE ...] [--like-blocks FILE [FILE ...]]

C++ and CUDA files (.c .h .cpp .hpp .cu .cuh) that git tracks in src, include and tool. A file under
forty lines is counted in src and tool only: public headers may be short. --like-blocks takes, per tree,
the text a duplicate finder printed: one line per pair of like blocks, with the word "exact" in it
if the two are identical. Blank lines and lines that begin with # do not count.
"""
import argparse
import collections
import pathlib
import statistics
import subprocess

ENDINGS = (".c", ".h", ".cpp", ".hpp", ".cu", ".cuh")
FOLDERS = ("include", "src", "tool")
SHORT_LINES = 40
LARGE_FOLDER = 30


def tracked(tree):
    """The files of a checkout, new ones included."""
    listed = subprocess.run(
        ["git", "-C", tree, "ls-files", "--cached", "--others", "--exclude-standard", "--", *FOLDERS],
        check=True, capture_output=True, text=True,
    )
    paths = [pathlib.PurePath(name) for name in listed.stdout.splitlines()]
    return [path for path in paths if path.suffix in ENDINGS and (tree / path).exists()]


def count(tree):
    lines = {path: len((tree / path).read_bytes().splitlines()) for path in tracked(tree)}
    if not lines:
        raise SystemExit(f"counts.py: no C++ files in {tree}")
    folders = collections.Counter(str(path.parent) for path in lines)
    large = [f"{name} {number}" for name, number in folders.most_common() if number > LARGE_FOLDER]
    result = {"files": len(lines), "lines": sum(lines.values())}
    for top in FOLDERS:
        inside = [number for path, number in lines.items() if path.parts[0] == top]
        result[f"  {top}: files / lines"] = f"{len(inside)} / {sum(inside)}"
    result["median lines per file"] = f"{statistics.median(lines.values()):g}"
    result[f"files under {SHORT_LINES} lines in src and tool"] = sum(
        number < SHORT_LINES for path, number in lines.items() if path.parts[0] != "include"
    )
    result["folders with C++ files"] = len(folders)
    names = f" ({', '.join(large)})" if large else ""
    result[f"folders of more than {LARGE_FOLDER} files"] = f"{len(large)}{names}"
    return result


def count_like_blocks(report):
    pairs = [line for line in report.read_text().splitlines() if line.strip() and not line.startswith("#")]
    exact = sum("exact" in line.split() for line in pairs)
    return {"pairs of like blocks": len(pairs), "  of them to the letter": exact}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", nargs="+", type=pathlib.Path)
    parser.add_argument("--like-blocks", nargs="+", type=pathlib.Path, default=[])
    options = parser.parse_args()
    if options.like_blocks and len(options.like_blocks) != len(options.trees):
        parser.error("--like-blocks takes one file per tree")

    columns = [count(tree) for tree in options.trees]
    for column, report in zip(columns, options.like_blocks):
        column.update(count_like_blocks(report))
    print(f"C++ and CUDA files ({' '.join(ENDINGS)}) that git tracks in {', '.join(FOLDERS)}")
    rows = [["", *(str(tree) for tree in options.trees)]]
    rows += [[name, *(str(column[name]) for column in columns)] for name in columns[0]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


if __name__ == "__main__":
    main()
