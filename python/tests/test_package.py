"""The package in processes of its own: imports in any order, exceptions, what the libraries export and need."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import octet
from octet._library import folder, library_path

TREE = Path(__file__).parents[2]


def run(code: str, *args: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code, *args], check=True, capture_output=True, text=True, env=dict(os.environ)
    ).stdout


# torch's message was cut in half where a C++ runtime was visible, and the first error aborted with a static libgcc.
THROW = """
try: torch.ones(2, 3) @ torch.ones(2, 3)
except RuntimeError as e: print(e)
try: torch.ops.octet.swiglu(torch.ones(2, 3), None)
except RuntimeError as e: print(e)
try: ot.linear(torch.ones(2, 3), torch.ones(2, 5))
except ValueError as e: print(e)
print(torch.arange(2) * 1.5)
"""


@pytest.mark.parametrize(
    "imports",
    [
        "import torch, octet.torch as ot",
        "import octet.torch as ot, torch",
        "import octet, octet._library as l; l.liboctet(); import torch; import octet.torch as ot",
    ],
)
def test_imports_in_any_order_and_throws(imports):
    first, *lines = run(imports + THROW).splitlines()
    assert first.endswith("mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)")
    assert lines == [
        "octet: gate_up must have an even number of columns, gate | up, got 3",
        "octet: w must be [N, K] = [2, 3], got [2, 5]",
        "tensor([0.0000, 1.5000])",
    ]


TUNED = """
import octet, sys, torch
import octet.torch as ot
octet.set_tuning_table(sys.argv[1])
ot.linear(torch.randn(24, 256), torch.randn(40, 256), wgrad="1d")
"""


def test_a_tuning_table_decides_for_octet_torch(tmp_path):
    command = [str(folder() / "bin/octet"), "tune", "gemm", "--device", "cpu", "--input", "f32", "--shape", "24x40x256"]
    store = tmp_path / "job.sqlite"
    subprocess.run(
        [*command, "--seconds-per-candidate", "0.01", "--store", str(store)], check=True, capture_output=True
    )
    log = subprocess.run(
        [sys.executable, "-c", TUNED, str(tmp_path / "job.table")],
        check=True, capture_output=True, text=True, env={**os.environ, "OCTET_LOG": "dispatch"},
    ).stderr  # fmt: skip
    forward = log.split("octet dispatch: gemm --shape 24x40x256 ")[1]
    assert f"(by the tuning table {tmp_path / 'job.table'})" in forward.splitlines()[1]


def test_sets_a_tuning_table_and_refuses_what_is_none(tmp_path):
    table = tmp_path / "job.table"
    table.write_text("octet tuning table 2, entries: 0\n")
    octet.set_tuning_table(table)
    try:
        assert octet.tuning_table() == str(table)
        with pytest.raises(ValueError, match=r"tuning table .*missing: there is no such file"):
            octet.set_tuning_table(tmp_path / "missing")
        assert octet.tuning_table() == str(table)
    finally:
        octet.set_tuning_table(None)
    assert octet.tuning_table() == ""


def test_octet_alone_does_not_import_torch():
    assert run("import octet, sys; print(octet.__version__, 'torch' in sys.modules)").split() == [
        octet.__version__,
        "False",
    ]


OLD_TORCH = """
import ctypes, importlib.machinery, sys, unittest.mock

class Torch:
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name.split(".")[0] == "torch" else None
    def create_module(self, spec):
        return unittest.mock.MagicMock(__version__="2.9.1", __path__=[])
    def exec_module(self, module):
        pass

sys.meta_path.insert(0, Torch())
ctypes.CDLL(sys.argv[1])
try: import octet.torch
except ImportError as e: print(e)
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_older_torch_is_refused_in_words(tmp_path):
    """A library with the name of torch's, and without the functions of 2.10."""
    library = os.fspath(tmp_path / "libtorch_cpu.so")
    subprocess.run(["cc", "-shared", "-o", library, "-Wl,-soname,libtorch_cpu.so", "-xc", os.devnull], check=True)
    error = run(OLD_TORCH, library).strip()
    assert re.fullmatch(r"octet.torch needs torch 2.10 or later; torch 2.9.1 has no aoti_torch_\w+", error)


def test_version_is_that_of_the_headers():
    header = (TREE / "include" / "octet" / "version.h").read_text()
    numbers = [re.search(rf"#define OCTET_VERSION_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH")]
    assert octet.__version__ == ".".join(numbers)


def import_error(before: str) -> str:
    return run(f"{before}\ntry: import octet.torch\nexcept ImportError as e: print(e)").strip()


def test_missing_torch_is_named():
    hidden = "import sys; sys.modules['torch'] = None"
    error = import_error(hidden)
    assert error == 'octet.torch needs PyTorch 2.10 or later, which is not installed: pip install "octet[torch]"'


def test_a_namespace_that_is_taken_is_named():
    error = import_error("import torch; library = torch.library.Library('octet', 'DEF')")
    assert error.startswith("octet.torch cannot register torch.ops.octet: something in this process has registered")


def test_a_part_of_torch_that_is_missing_is_not_hidden():
    error = import_error("import sys, torch; sys.modules['torch.utils.flop_counter'] = None")
    assert "torch.utils.flop_counter" in error and "pip" not in error


@pytest.mark.parametrize("name, prefix", [("liboctet.so.0", "octet_"), ("liboctet_torch.so", "octet_torch_")])
def test_libraries_show_nothing_of_the_cpp_runtime(name, prefix):
    path = os.fspath(library_path(name))
    symbols = subprocess.run(["nm", "-D", path], check=True, capture_output=True, text=True).stdout
    # Names of the runtime that are imported would bind to what libtorch exports.
    assert not [line for line in symbols.splitlines() if " _Z" in line]
    defined = [line.split()[-1] for line in symbols.splitlines() if " T " in line]
    assert defined and all(symbol.startswith(prefix) for symbol in defined)
    dynamic = subprocess.run(["readelf", "-d", path], check=True, capture_output=True, text=True).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    assert "libgcc_s.so.1" in needed
    assert needed <= {"liboctet.so.0", "libgcc_s.so.1", "libm.so.6", "libc.so.6", "ld-linux-x86-64.so.2"}


def test_command():
    if not (folder() / "bin" / "octet").exists():
        pytest.skip("this package has no octet command")
    for command in ([sys.executable, "-m", "octet"], [os.path.join(os.path.dirname(sys.executable), "octet")]):
        if not os.path.exists(command[0]):
            pytest.skip("the package is not installed")
        out = subprocess.run([*command, "--version"], check=True, capture_output=True, text=True).stdout
        assert out.startswith(f"octet {octet.__version__}")
    subprocess.run([sys.executable, "-m", "octet", "doctor"], check=True, capture_output=True)
