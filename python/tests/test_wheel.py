"""The wheel of ./dev torch (OCTET_WHEEL) where nothing else is installed, and the refusals of `pip install .`."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import octet

WHEEL = os.environ.get("OCTET_WHEEL")
TREE = Path(__file__).parents[2]
needs_wheel = pytest.mark.skipif(WHEEL is None, reason="OCTET_WHEEL is not set: ./dev torch makes a wheel")
needs_cmake = pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")


def run(*command: str | os.PathLike, env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    # Neither the build folder nor the tree may help.
    clean = {name: value for name, value in os.environ.items() if name not in ("OCTET_PYTHON_DIR", "PYTHONPATH")}
    return subprocess.run(command, capture_output=True, text=True, env={**clean, **(env or {})})


@needs_wheel
def test_one_wheel_for_every_python():
    assert Path(WHEEL).name == f"octet-{octet.__version__}-py3-none-manylinux_2_34_x86_64.whl"
    scripts = Path(sys.executable).parent
    show = run(scripts / "auditwheel", "show", WHEEL, env={"PATH": f"{scripts}:{os.environ['PATH']}"})
    assert show.returncode == 0, show.stderr
    assert 'consistent with the following platform tag: "manylinux_2_34_x86_64"' in " ".join(show.stdout.split())
    names = zipfile.ZipFile(WHEEL).namelist()
    assert {"octet/py.typed", "octet/bin/octet", "octet/lib/liboctet.so.0", "octet/lib/liboctet_torch.so"} <= set(names)
    # Nothing was added by auditwheel: glibc and libgcc are all that the wheel needs.
    assert not [name for name in names if name.startswith("octet.libs/") or "__pycache__" in name]


@pytest.fixture(scope="module")
def bin_folder(tmp_path_factory) -> Path:
    """The programs of a fresh venv with the wheel and nothing else, torch included."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    done = run(sys.executable, "-m", "pip", "--python", folder, "install", "--no-index", "--quiet", WHEEL)
    assert done.returncode == 0, done.stderr
    return folder / "bin"


@needs_wheel
def test_fresh_venv_without_torch(bin_folder):
    python = bin_folder / "python"
    assert run(python, "-c", "import octet; print(octet.__version__)").stdout.strip() == octet.__version__
    error = run(python, "-c", "import octet.torch").stderr.splitlines()[-1]
    assert error.startswith(
        "ModuleNotFoundError: octet.torch needs PyTorch 2.10 or later, which is not installed: pip "
    )
    for command in ([python, "-m", "octet"], [bin_folder / "octet"]):
        assert run(*command, "--version").stdout.startswith(f"octet {octet.__version__}")
        assert run(*command, "doctor").returncode == 0
        assert run(*command, "check", "gemm", "--shape", "64x128x128", "--device", "cpu").returncode == 0


@needs_wheel
def test_fresh_venv_has_every_library(bin_folder):
    files = [p for p in bin_folder.parent.rglob("octet/*/*octet*") if p.read_bytes()[:4] == b"\x7fELF"]
    assert len(files) == 3
    for file in files:
        libraries = run("ldd", file).stdout
        assert "libc.so.6" in libraries and "not found" not in libraries
        assert not re.search(r"libstdc\+\+|yaml|fmt|sqlite|csv|cudart", libraries), libraries


PACKAGES = (TREE / "cmake" / "system_packages.txt").read_text().splitlines()
HEADERS = dict(line.split() for line in PACKAGES if not line.startswith("#"))


@needs_cmake
@pytest.mark.parametrize("gone", [["csv.h"], ["hwy/highway.h", "yaml-cpp/yaml.h"], list(HEADERS)])
def test_missing_system_packages_are_named(tmp_path, gone):
    """The CMake that pip runs, with a root folder that has some of the headers."""
    for header in HEADERS.keys() - set(gone):
        file = tmp_path / "usr/include" / header
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    options = [f"-DCMAKE_FIND_ROOT_PATH={tmp_path}", "-DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY"]
    done = run("cmake", "-S", TREE / "python", "-B", tmp_path / "build", *options)
    assert done.returncode != 0
    (command,) = re.findall(r"^\s*sudo apt-get install (.*)$", done.stderr, re.MULTILINE)
    assert set(command.split()) - {"libjs-chart.js"} == {HEADERS[header] for header in gone}


@needs_cmake
def test_empty_prebuilt_folder_is_refused(tmp_path):
    done = run("cmake", "-S", TREE / "python", "-B", tmp_path / "build", f"-DOCTET_PREBUILT={tmp_path}")
    assert done.returncode != 0
    assert "liboctet_torch.so" in done.stderr and "--target octet_python" in " ".join(done.stderr.split())
