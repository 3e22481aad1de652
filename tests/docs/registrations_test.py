#!/usr/bin/env python3
"""Compares the table of shared files in docs/adding_an_op.md with the files that name an operator.

Every file of the table must name the operator, and no other shared file in include/, src/, tool/
and cmake/ may. Files that belong to one operator, whose path names it, do not count, nor do
comments.

    registrations_test.py SOURCE_DIR
"""
import pathlib
import re
import sys

OPERATOR = re.compile(r"rms[_-]?norm(?![_-]?rope)", re.IGNORECASE)
FOLDERS = ("include", "src", "tool", "cmake")
SUFFIXES = {".hpp", ".h", ".cpp", ".cu", ".cuh", ".inl", ".cmake", ".txt", ".json"}


def operators(root):
    return sorted(path.name for path in (root / "src" / "ops").iterdir() if path.is_dir())


def belongs_to_an_operator(path, names):
    return any(re.search(rf"(^|[/_]){name}([/_.]|$)", path) for name in names)


def code_of(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix in {".cmake", ".txt", ".yaml"}:
        return re.sub(r"#.*", "", text)
    return re.sub(r"//.*", "", text)


def listed_files(page):
    section = page.split("## 6. Every shared file", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def shared_files_that_name_it(root):
    names = operators(root)
    found = set()
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            relative = path.relative_to(root).as_posix()
            if path.suffix not in SUFFIXES or belongs_to_an_operator(relative, names):
                continue
            if OPERATOR.search(code_of(path)):
                found.add(relative)
    return found


def main():
    root = pathlib.Path(sys.argv[1])
    listed = listed_files((root / "docs" / "adding_an_op.md").read_text(encoding="utf-8"))
    failures = []
    if len(listed) < 3:
        failures.append("docs/adding_an_op.md: no table of shared files was found in section 6")
    for name in listed:
        path = root / name
        if not path.is_file():
            failures.append(f"docs/adding_an_op.md lists {name}, which does not exist")
        elif not OPERATOR.search(code_of(path)):
            failures.append(f"docs/adding_an_op.md lists {name}, which does not name rms_norm")
    for name in sorted(shared_files_that_name_it(root) - set(listed)):
        failures.append(f"{name} names rms_norm; docs/adding_an_op.md, section 6, does not list it")
    print("\n".join(failures) or f"{len(listed)} shared files, as listed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
