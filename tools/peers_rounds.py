"""The protocol of tools/peers.py: run once, compare with octet, time all in interleaved rounds.

Nothing here knows torch: how outputs are compared and how a call is timed are arguments.
"""

import dataclasses
import math
import statistics

OURS = "octet"
ROUND_SECONDS = 0.08
GRAPH_LAUNCHES = 256  # of 3 us are 0.8 ms, beside which the gap between two graphs is small


class LeftOut(Exception):
    """A contender gets no row, for a reason that is not a failure."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One product of one shape. Its contenders are passed separately, name -> function that makes a
    call, ours first; a call runs once and returns its output."""
    shape: tuple
    product: str
    dtype: str
    work: float  # operations or bytes of one call
    other_data: frozenset = frozenset()  # contenders on data other than ours, judged elsewhere
    sets: int = 1   # of operands, which the launches of a call take in turn
    name: str = ""  # of a layer that was drawn at random: two of them may have one shape


@dataclasses.dataclass
class Result:
    case: Case
    library: str
    check: str           # PASS; FAIL: its output differs from octet's; ERROR: it could not run
    seconds: list        # of a call, one per round
    ratio: float = None  # its time over ours: the median over the rounds
    clock_mhz: float = None
    power_w: float = None
    note: str = ""       # what it ran, or why it could not

    @property
    def failed(self):
        """A peer that cannot run is not a failure of octet."""
        return self.check == "FAIL" or self.check == "ERROR" and self.library == OURS

    @property
    def median(self):
        return statistics.median(self.seconds)

    @property
    def rate(self):
        return self.case.work / self.median / 1e12

    @property
    def spread_percent(self):
        return 100 * (max(self.seconds) - min(self.seconds)) / self.median


def one_line(error):
    lines = str(error).strip().splitlines()
    return lines[0][:160] if lines else type(error).__name__


def noted(call, note):
    """The call with the note of its row."""
    call.note = note
    return call


def judged(call, same):
    """The call with a judge of its own."""
    call.same = same
    return call


def quickest(calls, seconds):
    """The fastest of the calls by mode; modes that fail are skipped."""
    if len(calls) == 1:
        return noted(*calls.values(), f"mode {next(iter(calls))}")
    timed, refusal = {}, None
    for mode, call in calls.items():
        try:
            timed[mode] = seconds(call)
        except Exception as error:  # whatever a compiler throws
            refusal = error
    if not timed:
        raise refusal
    best = min(timed, key=timed.get)
    return noted(calls[best], f"mode {best}")


def prepare(case, contenders, same, say):
    """Runs every contender once: the calls to time, and the results of those that get no time."""
    calls, refused, wanted = {}, [], None
    for name, make in contenders.items():
        try:
            call = make()
            output = call()
            judge = getattr(call, "same", same)  # of a call with other rounding or padding
            agrees = name == OURS or name in case.other_data or judge(output, wanted)
        except LeftOut as reason:
            say(f"  {case.product:16} {name}: left out, {reason}")
            continue
        except Exception as error:  # whatever a peer throws, the others continue
            say(f"  {case.product:16} {name}: ERROR, {one_line(error)}")
            refused.append(Result(case, name, "ERROR", [], note=one_line(error)))
            if name == OURS:
                return {}, refused
            continue
        if name == OURS:
            wanted = output
        if agrees:
            calls[name] = call
        else:
            say(f"  {case.product:16} {name}: FAIL, its output is not octet's")
            refused.append(Result(case, name, "FAIL", []))
    return calls, refused


@dataclasses.dataclass(frozen=True)
class Protocol:
    """How often and for how long every contender of a case is timed."""
    rounds: int = 5
    round_seconds: float = ROUND_SECONDS
    case_seconds: float = None  # of all contenders together, in place of round_seconds

    def seconds_of_round(self, contenders):
        """Each contender has the timed rounds, a warm-up and one that sizes them, and settles as long
        before each."""
        if self.case_seconds is None:
            return self.round_seconds
        return self.case_seconds / (2 * (self.rounds + 2) * contenders)


def sets_beyond(touched_bytes, l2_bytes):
    """How many sets of inputs exceed twice the L2 cache, so that launches that take them in turn read
    from memory."""
    return max(1, math.ceil(2 * l2_bytes / touched_bytes))


def batch_of(call_seconds, round_seconds, sets=1):
    """How many launches are enqueued at once, and whether as a graph: for short calls launched one
    by one, Python would be measured. A graph takes every set of operands equally often."""
    as_graph = call_seconds < 1e-3
    launches = max(3, math.ceil(round_seconds / call_seconds))
    if as_graph:
        launches = math.ceil(min(launches, GRAPH_LAUNCHES) / sets) * sets
    return launches, as_graph


def repeats_of(batch_seconds, round_seconds):
    """How many batches make a round that lasts at least round_seconds."""
    return max(1, math.ceil(round_seconds / batch_seconds))


def compare(case, contenders, protocol, same, timer, say=print):
    """The results of one case. `same(output, wanted)` judges, `timer.batch(call, case, seconds)`
    makes the launches of a round that lasts so long, `timer.seconds(batch)` times them, per call,
    and `timer.reading()` gives clock and power while they ran."""
    calls, results = prepare(case, contenders, same, say)
    round_seconds = protocol.seconds_of_round(max(1, len(calls)))
    batches = {}
    for name, call in list(calls.items()):
        try:
            batch = timer.batch(call, case, round_seconds)
            timer.seconds(batch)
            batches[name] = batch
        except Exception as error:  # as in prepare
            say(f"  {case.product:16} {name}: ERROR, {one_line(error)}")
            results.append(Result(case, name, "ERROR", [], note=one_line(error)))
            del calls[name]
            if name == OURS:
                return results
    if not calls:
        return results
    timed = {name: Result(case, name, "PASS", [], note=getattr(call, "note", ""))
             for name, call in calls.items()}
    readings = {name: [] for name in calls}
    for turn in range(protocol.rounds):
        # Alternate the direction, so that no contender always follows the same one.
        for name, batch in list(batches.items())[::-1 if turn % 2 else 1]:
            timed[name].seconds.append(timer.seconds(batch))
            readings[name].append(timer.reading())
    for name, result in timed.items():
        result.ratio = statistics.median(
            own / ours for own, ours in zip(result.seconds, timed[OURS].seconds))
        clocks = [clock for clock, _ in readings[name] if clock is not None]
        powers = [power for _, power in readings[name] if power is not None]
        result.clock_mhz = statistics.median(clocks) if clocks else None
        result.power_w = statistics.fmean(powers) if powers else None
    return results + list(timed.values())


def fastest_peer(results):
    """The result of the fastest library other than octet; None if there is none."""
    peers = [r for r in results if r.check == "PASS" and r.library != OURS]
    return min(peers, key=lambda r: r.median, default=None)
