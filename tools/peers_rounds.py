"""The protocol of tools/peers.py: run once, compare with octet, time all in interleaved rounds.

Nothing here knows torch: how outputs are compared and how a call is timed are arguments.
"""

import dataclasses
import statistics

OURS = "octet"
ROUND_SECONDS = 0.08


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


def round_of(call_seconds, round_seconds=ROUND_SECONDS):
    """How many launches of a call make a round, and whether to launch them as one graph: for short
    calls launched one by one, Python would be measured."""
    return max(3, min(100, int(round_seconds / call_seconds))), call_seconds < 1e-3


def compare(case, contenders, rounds, same, timer, say=print):
    """The results of one case. `same(output, wanted)` judges, `timer.batch(call, case)` makes a
    round's launches of a call, `timer.seconds(batch)` times them, per call, and `timer.reading()`
    gives clock and power while they ran."""
    calls, results = prepare(case, contenders, same, say)
    if not calls:
        return results
    batches = {name: timer.batch(call, case) for name, call in calls.items()}
    for batch in batches.values():
        timer.seconds(batch)
    timed = {name: Result(case, name, "PASS", [], note=getattr(call, "note", ""))
             for name, call in calls.items()}
    readings = {name: [] for name in calls}
    for turn in range(rounds):
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
