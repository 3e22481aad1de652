"""The output of ptxas for one source file, as recorded by cmake/kernels/record.py."""
import dataclasses
import re

ENTRY = re.compile(r"Compiling entry function '(\w+)'")
FRAME = re.compile(
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
)
FUNCTION = re.compile(r"Function properties for (\w+)")
SECONDS = re.compile(r"^nvcc seconds: ([\d.]+)$", re.MULTILINE)


@dataclasses.dataclass
class Log:
    entries: list  # mangled names of the kernels
    seconds: float
    complaints: list


def read(text):
    entries, complaints, function = [], [], "?"
    for line in text.splitlines():
        if match := ENTRY.search(line):
            entries.append(match[1])
        if match := FUNCTION.search(line):
            function = match[1]
        if (match := FRAME.search(line)) and any(int(count) for count in match.groups()):
            complaints.append(f"{function}: {line.strip()}")
        # C7504, C7508 to C7517: wgmma serialised, or waits that were not written.
        if re.search(r"\bC75\d\d\b", line) or "warning" in line:
            complaints.append(line.strip())
    seconds = SECONDS.search(text)
    if seconds is None:
        complaints.append("the log does not say how many seconds nvcc took")
    return Log(entries, float(seconds[1]) if seconds else 0.0, complaints)
