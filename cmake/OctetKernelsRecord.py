"""Runs one nvcc compile: OctetKernelsRecord.py LOG_FOLDER nvcc ARGUMENTS...

What nvcc prints goes to LOG_FOLDER/<folder>.<file>.log with the processor seconds it took, so that
tests/kernels can judge it without compiling again. The screen gets warnings, and all of it where
the compile fails.
"""
import pathlib
import resource
import subprocess
import sys


def main():
    folder, command = pathlib.Path(sys.argv[1]), sys.argv[2:]
    sources = [pathlib.Path(word) for word in command if word.endswith(".cu")]
    if "-c" not in command or len(sources) != 1:  # a link, or a question about the compiler
        return subprocess.run(command).returncode

    result = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace")
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = usage.ru_utime + usage.ru_stime

    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{sources[0].parent.name}.{sources[0].stem}.log"
    log.write_text(f"{result.stderr}nvcc seconds: {seconds:.1f}\n")
    for line in result.stderr.splitlines(keepends=True):
        if result.returncode != 0 or "warning" in line or "error" in line:
            sys.stderr.write(line)
    return result.returncode


sys.exit(main())
