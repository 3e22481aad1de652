"""Runs one nvcc compile: record.py SOURCE_ROOT LOG_FOLDER nvcc ARGUMENTS...

The output of nvcc goes to LOG_FOLDER/<path below SOURCE_ROOT, / as .>.log with the processor
seconds it took, so that tests/kernels can judge it without compiling again. The screen shows
warnings, and the whole output if the compile fails.
"""
import pathlib
import resource
import subprocess
import sys


def main():
    root, folder, command = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
    sources = [pathlib.Path(word) for word in command if word.endswith(".cu")]
    if "-c" not in command or len(sources) != 1 or not sources[0].is_relative_to(root):
        return subprocess.run(command).returncode  # a link, or a query of the compiler

    result = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace")
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = usage.ru_utime + usage.ru_stime

    folder.mkdir(parents=True, exist_ok=True)
    name = ".".join(sources[0].relative_to(root).with_suffix("").parts)
    (folder / f"{name}.log").write_text(f"{result.stderr}nvcc seconds: {seconds:.1f}\n")
    for line in result.stderr.splitlines(keepends=True):
        if result.returncode != 0 or "warning" in line or "error" in line:
            sys.stderr.write(line)
    return result.returncode


sys.exit(main())
