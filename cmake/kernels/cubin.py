"""The kernels of a CUDA object and how often each instruction occurs in them.

An object compiled with --no-compress holds its cubins as plain ELF images. A Hopper instruction is
16 bytes, its operation the low 12 bits; for branches a modifier in the upper half is read too. The
numbers below were found for CUDA 13.0 by compiling kernels with known counts, and have to be found
again when the toolkit changes.
"""
import collections
import struct

EM_CUDA = 190

OPERATIONS = {
    0x9F3: "QGMMA",  # FP8 wgmma, operands in shared memory
    0xDF3: "QGMMA_RS",  # FP8 wgmma, a in registers
    0x9F0: "HGMMA",  # bf16 and f16 wgmma, operands in shared memory
    0xDF0: "HGMMA_RS",  # the same, a in registers
    0x221: "FADD",
    0x223: "FFMA",
    0x220: "FMUL",
    0x9C5: "WARPGROUP",  # arrive before, and wait after, a batch of wgmma
    0x9C8: "SETMAXNREG",
    0x983: "LDL",  # local memory: spills and stack
    0x387: "STL",
}
BRANCH = 0x947
# In the upper half of a branch: back to the start of a loop over lanes, which ptxas wraps around an
# instruction that one lane executes.
WHILE_ANY_LANE = 1 << 20


def cubins(data):
    """Where each embedded cubin begins."""
    begin = data.find(b"\x7fELF", 1)
    while begin >= 0:
        if struct.unpack_from("<H", data, begin + 18)[0] == EM_CUDA:
            yield begin
        begin = data.find(b"\x7fELF", begin + 4)


def sections(data, begin):
    """(name, offset, bytes) of each section of the ELF image at `begin`."""
    (table,) = struct.unpack_from("<Q", data, begin + 40)
    entry_bytes, count, names_index = struct.unpack_from("<HHH", data, begin + 58)
    headers = [
        struct.unpack_from("<IIQQQQ", data, begin + table + i * entry_bytes) for i in range(count)
    ]
    names = begin + headers[names_index][4]
    for name, _, _, _, offset, size in headers:
        end = data.index(b"\0", names + name)
        yield data[names + name : end].decode(), begin + offset, size


def reads_one_bank(lower, upper):
    """Whether the three sources of an FFMA are all in even or all in odd registers, which takes longer to read."""
    return (lower >> 24 & 1) == (lower >> 32 & 1) == (upper & 1)


def histogram(machine_code):
    counts = collections.Counter()
    for lower, upper in struct.iter_unpack("<QQ", machine_code):
        operation = lower & 0xFFF
        loops = operation == BRANCH and upper & WHILE_ANY_LANE
        name = "LANE_LOOP" if loops else OPERATIONS.get(operation, "other")
        counts["FFMA_ONE_BANK" if name == "FFMA" and reads_one_bank(lower, upper) else name] += 1
    return counts


def code(data):
    """{mangled name: machine code} of every kernel in an object file."""
    found = {}
    for begin in cubins(data):
        for name, offset, size in sections(data, begin):
            if name.startswith(".text."):
                found[name.removeprefix(".text.")] = data[offset : offset + size]
    return found


def kernels(data):
    """{mangled name: Counter of operations} of every kernel in an object file."""
    return {name: histogram(machine_code) for name, machine_code in code(data).items()}
