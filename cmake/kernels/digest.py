"""Writes a digest of the machine code of each operator's kernels as a C++ header.

    digest.py TABLE OUTPUT OBJECT...

TABLE is operators.json in this folder: the folders whose kernels an operator runs. A digest is 12
hexadecimal digits of SHA-256 over the sorted hashes of the kernels' code. It does not depend on
names, paths, comments, the order of the objects or the kernels of other operators. The library
reports it (octet_device_sources), each published row carries it, and a row is fresh as long as it
is the tree's.
"""
import hashlib
import json
import pathlib
import sys

import cubin


# Folders of kernels, and files, that count by themselves: rows that never run them keep their digests.
FOLDERS = json.loads((pathlib.Path(__file__).parent / "operators.json").read_text())["folders"]


def folder_of(cuda_object):
    """.../octet_objects.dir/ops/gemm/sm90/kernels.cu.o -> ops/gemm; .../device/rows/x.cu.o -> device.

    The longest entry of the table that the path begins with, or the operator's folder.
    """
    path = cuda_object.as_posix().rpartition(".dir/")[2].removesuffix(".cu.o")
    known = [folder for folder in FOLDERS if f"{path}/".startswith(f"{folder}/")]
    return max(known, key=len, default="/".join(path.split("/")[:2]))


def kernel_hashes(cuda_objects):
    """{folder: [hash of each kernel's code]}"""
    hashes = {}
    for cuda_object in cuda_objects:
        found = hashes.setdefault(folder_of(cuda_object), [])
        found += [hashlib.sha256(code).hexdigest() for code in cubin.code(cuda_object.read_bytes()).values()]
    return hashes


def digests(operators, hashes):
    """{operator: digest}; a folder of an operator that has no kernels is an error in the table."""
    result = {}
    for operator, folders in operators.items():
        for folder in folders:
            if not hashes.get(folder):
                sys.exit(f"{operator} runs kernels of {folder}, where none were compiled")
        code = "\n".join(sorted(hash for folder in folders for hash in hashes[folder]))
        result[operator] = hashlib.sha256(code.encode()).hexdigest()[:12]
    return result


def header(found):
    entries = "".join(f'    {{"{operator}", "{digest}"}},\n' for operator, digest in found.items())
    return f"static constexpr OctetDeviceSources kOctetDeviceSources[] = {{\n{entries}}};\n"


def main():
    table, output, *objects = [pathlib.Path(word) for word in sys.argv[1:]]
    cuda_objects = [path for path in objects if path.name.endswith(".cu.o")]
    text = header(digests(json.loads(table.read_text())["operators"], kernel_hashes(cuda_objects)))
    if not output.exists() or output.read_text() != text:  # the same text causes no recompilation
        output.write_text(text)


if __name__ == "__main__":
    main()
