"""How tools/peers.py judges outputs and times calls on the GPU."""

import functools
import time

import torch

import nvml
from peers_rounds import batch_of, noted, one_line, quickest, repeats_of

COPY = "device copy"
FEW = 64  # a sum of fewer values may be near zero by chance


def close(given, wanted, bound=1e-4):
    """40 dB in every row and every column: one wrong tile of a big output fails. The error of a
    line of few values is compared with the energy of the whole matrix."""
    error = (given.float() - wanted.float()).square()
    energy = wanted.float().square()
    return all(bool((error.mean(dim) <= bound * (energy.mean(dim) if energy.shape[dim] >= FEW
                                                 else energy.mean())).all())
               for dim in (0, 1))


class Batch:
    """Launches that are enqueued at once, one by one or as a graph, and how often a round repeats
    them."""

    def __init__(self, call, launches, as_graph=False):
        self.call, self.launches, self.enqueue = call, launches, self.one_by_one
        self.repeats = 1
        if as_graph and getattr(call, "capture", True):
            try:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    self.one_by_one()
                self.enqueue = graph.replay
            except RuntimeError as error:
                print(f"  cannot be captured, launched one by one: {one_line(error)}")

    def one_by_one(self):
        for _ in range(self.launches):
            self.call()


class Timer:
    """Device events around a batch; clock and power while it runs."""

    def __init__(self, gpu):
        self.gpu = gpu
        self.last = (None, None)

    def batch(self, call, case, round_seconds):
        """Sized by one call, which Python may slow down, and then by the batch."""
        one = self.seconds(Batch(call, 1))
        batch = Batch(call, *batch_of(one, round_seconds, case.sets))
        batch.repeats = repeats_of(self.seconds(batch) * batch.launches, round_seconds)
        return batch

    def seconds(self, batch):
        """Of a call in a round: the launches once untimed, then timed, back to back. A chip at its
        power limit needs that long to settle: after a kernel that draws less power the same product
        was measured 8 % faster."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        for _ in range(batch.repeats):
            batch.enqueue()
        begin.record()
        for _ in range(batch.repeats):
            batch.enqueue()
        end.record()
        self.last = (self.gpu.clock_mhz(), self.gpu.power_w())  # the device is still busy
        end.synchronize()
        return begin.elapsed_time(end) / (batch.repeats * batch.launches) / 1e3

    def reading(self):
        return self.last


def rotating(calls):
    """One call that runs several in turn, so that inputs do not stay in the L2 cache."""
    turn = [0]

    def call():
        turn[0] += 1
        return calls[turn[0] % len(calls)]()

    return noted(call, getattr(calls[0], "note", ""))


def device_copy(bytes_moved, device, sets):
    """Reads half of the bytes and writes them elsewhere; there are as many such copies as sets of
    inputs. Large ones are not launched as a graph: as a node of a graph a copy of some sizes (560
    MiB, 2240 MiB, 462 MiB and 16 bytes) runs at 2.75 TB/s on an H200, and at 4.2 TB/s on a stream."""
    def one():
        source = torch.randint(256, (bytes_moved // 2,), dtype=torch.uint8, device=device)
        target = torch.empty_like(source)
        return lambda: target.copy_(source)

    copies = rotating([one() for _ in sets])
    copies.capture = bytes_moved < 2 ** 28
    return copies


def first_timing(call, launches=20):
    """Seconds, to choose between two versions: the median of three batches after a warm-up."""
    def batch():
        begin = time.monotonic()
        for _ in range(launches):
            call()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.monotonic() - begin

    return sorted(batch() for _ in range(4))[1]


def quickest_compiled(code, sets, modes):
    """Calls of `code`, compiled, one per set of inputs, in the fastest of the modes."""
    torch._dynamo.reset()  # the code of one shape is useless for the next

    def calls(mode):
        compiled = torch.compile(code, dynamic=False, mode=mode)
        return rotating([functools.partial(compiled, *inputs) for inputs in sets])

    return quickest({mode: calls(mode) for mode in modes}, first_timing)


def gpu_in_use():
    if not torch.cuda.is_available():
        raise RuntimeError("torch sees no CUDA device")
    properties = torch.cuda.get_device_properties(0)
    return properties, nvml.Gpu(f"GPU-{getattr(properties, 'uuid', '')}")
