"""Other builds of liboctet as contenders: `--library before=PATH/liboctet.so:PATH/tools`.

A build is called by the Python code of its own tree, because another commit may have another C API.
That code is imported a second time, beside ours, and its `cases` yield the same products of the
same data; only octet's own call is taken from them.
"""

import dataclasses
import functools
import importlib
import os
import pathlib
import sys

from peers_cases import shape_text
from peers_rounds import OURS
from peers_table import geometric_mean

TOOLS = pathlib.Path(__file__).resolve().parent
LOSS = 0.99  # a ratio below this is counted: octet is more than 1 % slower than the build


def operator_module(op):
    return f"peers_{op.replace('-', '_')}"


@dataclasses.dataclass(frozen=True)
class Build:
    name: str
    path: pathlib.Path   # of the library
    tools: pathlib.Path  # the folder tools/ of its tree

    @classmethod
    def parse(cls, text):
        """NAME=LIBRARY[:TOOLS]; without TOOLS ours are used. Raises ValueError."""
        name, _, rest = text.partition("=")
        path, _, tools = rest.partition(":")
        build = cls(name, pathlib.Path(path).resolve(), pathlib.Path(tools or TOOLS).resolve())
        if not name or not path:
            raise ValueError(f"--library must be a peer or NAME=LIBRARY[:TOOLS], got {text}")
        if not build.path.is_file():
            raise ValueError(f"--library {name}: there is no file {path}, wanted a liboctet.so")
        if not (build.tools / "octet_c.py").is_file():
            raise ValueError(f"--library {name}: {tools} has no octet_c.py, wanted the folder "
                             "tools/ of the tree that the library was built from")
        return build

    def load(self, op):
        """Its modules octet_c and peers_OP, which call this library. Ours stay what they are."""
        def take_out():
            ours = [name for name in sys.modules if name.startswith(("octet_c", "peers"))]
            return {name: sys.modules.pop(name) for name in ours}

        path, library, ours = sys.path[:], os.environ.get("OCTET_LIBRARY"), take_out()
        sys.path.insert(0, str(self.tools))
        os.environ["OCTET_LIBRARY"] = str(self.path)
        try:
            return [importlib.import_module(name) for name in ("octet_c", operator_module(op))]
        finally:
            take_out()
            sys.modules.update(ours)
            sys.path[:] = path
            del os.environ["OCTET_LIBRARY"]
            if library is not None:
                os.environ["OCTET_LIBRARY"] = library


def octet_calls(operator, shape, options, l2_bytes, device):
    """(product, function that makes octet's call) for one case of peers_OP after the other."""
    taken = []

    def take(case, contenders, *_same):
        taken.append((case.product, contenders[OURS]))
        return []

    for _ in operator.cases(shape, take, options, l2_bytes, device):
        yield taken.pop()


def refuse_one_set(name, sets):
    raise RuntimeError(f"the tools of {name} read one set of operands from the L2 cache, octet's "
                       f"read {sets} in turn; leave out TOOLS to use these")


def beside(builds, compare, shape, options, l2_bytes, device="cuda"):
    """`compare` with the calls of the builds added; builds: name -> what `load` returned."""
    calls = {name: octet_calls(operator, shape, options, l2_bytes, device)
             for name, (_, operator) in builds.items()}

    def compare_all(case, contenders, *same):
        more = {}
        for name in calls:
            product, more[name] = next(calls[name], ("nothing more", None))
            if product != case.product:
                raise RuntimeError(f"--library {name}: its tools compute {product}, these "
                                   f"{case.product}")
            if case.sets > 1 and not hasattr(builds[name][1], "operand_sets"):
                more[name] = functools.partial(refuse_one_set, name, case.sets)
        return compare(case, contenders | more, *same)

    return compare_all


def ratios(results, name):
    """The ratios of a build, a line per shape, then the mean and the worst."""
    own = [r for r in results if r.library == name]
    timed = [r for r in own if r.ratio]
    if not timed:
        return [f"{name}: no times"]
    widths, shapes = {r.case.product: max(7, len(r.case.product)) for r in timed}, {}
    for result in timed:
        row = shapes.setdefault((result.case.shape, result.case.name), {})
        row[result.case.product] = f"{result.ratio:.4f}"

    def line(shape, cells):
        columns = (f"{cells.get(product, ''):>{width}}" for product, width in widths.items())
        return "  ".join([f"{shape:20}", *columns])

    lines = [f"time of {name} over octet's (below 1 octet is slower)",
             line("shape", {product: product for product in widths}),
             *(line(shape_text(shape), row) for (shape, _), row in shapes.items())]
    worst = min(timed, key=lambda r: r.ratio)
    losses = sum(r.ratio < LOSS for r in timed)
    return lines + [f"{name}: mean {geometric_mean([r.ratio for r in timed]):.4f}, worst "
                    f"{worst.ratio:.4f} ({shape_text(worst.case.shape)} {worst.case.product}), "
                    f"{losses} of {len(timed)} below {LOSS}, {len(own) - len(timed)} not timed"]
