"""Rows of an earlier run of tools/peers.py: which are kept, and which cases are not measured again.

The rows of a case come from one measurement, since their ratios are paired round by round: they are
kept or replaced together.
"""

import csv
import io
import os
import shlex

from peers_rounds import OURS, Result

# Options that say how a case was timed or which others were run, not what it is.
NOT_OF_THE_CASE = ("--rounds", "--round-seconds", "--seconds-per-case", "--product")
ALWAYS = {"Library", "Check", "Command"}  # columns of every table of tools/peers.py


def text_of(path):
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def require_table(path):
    """Raises ValueError if the file is something else than a table of tools/peers.py."""
    text = text_of(path)
    header = next(csv.reader(io.StringIO(text)), [])
    if text and not ALWAYS <= set(header):
        raise ValueError(f"-o {path}: it holds no results of tools/peers.py; wanted another file")


def read(path, columns, op):
    """The rows as dictionaries. Raises ValueError if they cannot be kept under these columns."""
    text, way_out = text_of(path), "give another file, or --fresh to replace it"
    rows = list(csv.reader(io.StringIO(text)))
    if not rows:
        return []
    if rows[0] != columns:
        other = ", ".join(sorted(set(rows[0]) ^ set(columns))) or "their order"
        raise ValueError(f"-o {path}: has other columns ({other}), as of another operator; {way_out}")
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(columns):
            raise ValueError(f"-o {path}: row {number} has {len(row)} fields, wanted "
                             f"{len(columns)}; mend it, {way_out}")
        words = shlex.split(row[columns.index("Command")])
        of = words[words.index("--op") + 1:][:1] if "--op" in words else []
        if of != [op]:
            raise ValueError(f"-o {path}: row {number} is of {' '.join(of)}, this run of {op}; {way_out}")
    if not text.endswith("\n"):
        raise ValueError(f"-o {path}: row {len(rows)} does not end with a line end: was it cut short? "
                         f"Mend it, {way_out}")
    return [dict(zip(columns, row)) for row in rows[1:]]


def drop_cut_case(path):
    """Cuts off a last line without an end, with the case before it, which may be the same one."""
    text = text_of(path)
    if not text or text.endswith("\n"):
        return
    lines = text.splitlines(keepends=True)[:-1]
    keys = [key_of(row) for row in csv.DictReader(lines)]
    last = keys[-1] if keys else None
    while keys and keys[-1] == last:
        keys.pop()
        lines.pop()
    os.truncate(path, len("".join(lines).encode()))


def key_of(row):
    """Equal for two rows of the same case, however it was timed."""
    words = shlex.split(row["Command"])
    of_case = [word for before, word in zip(["", *words], words)
               if word not in NOT_OF_THE_CASE and before not in NOT_OF_THE_CASE]
    return row.get("Case", ""), row["Dtype"], row["Product"], *of_case


def by_case(files):
    """Key -> rows of one measurement, the last one, in the place of the first. `files`: the rows of each."""
    found = {}
    for rows in files:
        last = None  # a case is in one file
        for row in rows:
            key = key_of(row)
            if key != last or row["Library"] in [other["Library"] for other in found[key]]:
                found[key] = []
            found[key].append(row)
            last = key
    return found


def note_of_octet(libraries_and_notes):
    """What octet ran in a case; empty if it has no row."""
    return next((note for library, note in libraries_and_notes if library == OURS), "")


def are_done(rows, origin, version_of):
    """Whether the rows of a case passed, or say why a peer cannot run it, with the same command, GPU,
    kernels and libraries."""
    checks = {row["Library"]: row["Check"] for row in rows}
    return (checks.get(OURS) == "PASS" and "FAIL" not in checks.values()
            and all(row["Version"] == version_of(row["Library"])
                    and all(row[column] == value for column, value in origin.items())
                    for row in rows))


def result_of(row, case):
    """The result as far as its row tells: of its rounds, the median."""
    def number(column):
        return float(row[column]) if row[column] else None

    time_ms = number("Time (ms)")
    return Result(case, row["Library"], row["Check"], [] if time_ms is None else [time_ms / 1e3],
                  number("Ratio"), number("Clock (MHz)"), number("Power (W)"), row["Note"])
