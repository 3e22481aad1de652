#!/usr/bin/env python3
"""Runs what a page of docs/ tells the reader to type, and compares what it quotes with what comes.

    page_test.py PAGE BUILD_DIR

The fences of a page, in its order, in an empty folder:

    ```sh                 bash runs the lines, with the octet of the build installed. The status
    ```sh status=0,1      must be 0, or one of those that are named.
    ```text               Every line must be in the output of the sh above it, the standard error
                          included. <words> stand for anything, blanks for any number of blanks.
    ```text PATH          The output of something that no test can bring about, such as a hot GPU:
                          every line must be in PATH, a file of the tree.
    ```cpp PATH           A file that the reader writes. Other languages are the same.

A page that starts from a blank machine installs octet itself; the build that is there takes the
place of what would take minutes, root or the network: see STAND_INS.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

# (a whole line of the page, what runs instead): the tree and the build that are there, and a folder
# of the test as /usr/local.
STAND_INS = [
    (r"sudo apt-get (update|install [\w -]+)", "true"),
    (r"git clone \S+ octet", "mkdir octet && ln -s {root}/* octet/"),
    (r"\./dev build", "test -x ./dev && test -x {build}/octet"),
    (r"sudo cmake --install build/release", "{install}"),
    (r"sudo ldconfig", "true"),
]


def libdir(build):
    cache = (build / "CMakeCache.txt").read_text()
    return re.search(r"^CMAKE_INSTALL_LIBDIR:\w+=(.*)$", cache, re.MULTILINE)[1]


class Page:
    def __init__(self, path, build, folder):
        self.path, self.failures, self.output, self.commands = path, [], "", 0
        prefix = folder / "prefix"
        install = f"cmake --install {build} --prefix {prefix} >/dev/null"
        self.places = {"root": ROOT, "build": build, "install": install}
        (folder / "work").mkdir()
        self.cwd = folder / "cwd"  # a cd holds for the fences that follow
        self.cwd.write_text(str(folder / "work"))
        libraries = f"{prefix}/{libdir(build)}"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("OCTET_")},
            "PATH": f"{prefix}/bin:{os.environ['PATH']}", "CMAKE_PREFIX_PATH": str(prefix),
            "PKG_CONFIG_PATH": f"{libraries}/pkgconfig", "LD_LIBRARY_PATH": libraries,
            "LIBRARY_PATH": libraries, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"),
            "COLUMNS": "100", "LC_ALL": "C.UTF-8"}
        if "cmake --install" not in path.read_text():
            subprocess.run(["bash", "-c", install], check=True)

    def fail(self, message):
        self.failures.append(f"{self.path.name}: {message}")

    def replaced(self, line):
        for pattern, instead in STAND_INS:
            if re.fullmatch(pattern, line):
                return instead.format(**self.places)
        return line

    def run(self, body, arguments):
        wanted = [int(number) for number in re.findall(r"\d+", arguments)] or [0]
        lines = body.splitlines()
        self.commands += len(lines)
        script = "\n".join(["set -e", f"trap 'pwd >{self.cwd}' EXIT", *map(self.replaced, lines)])
        result = subprocess.run(["bash", "-c", script], cwd=self.cwd.read_text().strip(),
                                env=self.environment, stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.output = result.stdout
        if result.returncode not in wanted:
            self.fail(f"status {result.returncode}, wanted {wanted}:\n{body}{self.output}")

    def compare(self, body, given, where):
        for line in body.splitlines():
            pieces = [re.escape(piece) for piece in re.split(r"<[^>]+>", " ".join(line.split()))]
            if not any(re.search(".+?".join(pieces), " ".join(text.split())) for text in given):
                self.fail("this line is not in {}:\n{}\nbut:\n{}".format(
                    where, line, "\n".join(given)[-3000:]))

    def compare_with_file(self, body, name):
        path = ROOT / name
        if not path.is_file():
            return self.fail(f"```text {name}: no such file")
        # Adjacent literals are one text: "a " "b" is "a b". A statement is a line.
        self.compare(body, re.sub(r'"\s*"', "", path.read_text()).replace("\\", "").split(";\n"), name)

    def write(self, name, body):
        path = pathlib.Path(self.cwd.read_text().strip()) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body)

    def check(self):
        for language, arguments, body in FENCE.findall(self.path.read_text()):
            if language == "sh":
                self.run(body, arguments)
            elif language != "text":
                self.write(arguments.strip(), body)
            elif arguments:
                self.compare_with_file(body, arguments.strip())
            else:
                self.compare(body, self.output.splitlines(), "the output of the commands above it")
            if self.failures:  # what follows depends on it
                break
        if self.commands == 0:
            self.fail("has no commands")
        return self.failures


def main():
    path, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        page = Page(path, build, pathlib.Path(folder))
        failures = page.check()
    print("\n".join(failures) or f"{path.name}: {page.commands} commands, as written")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
