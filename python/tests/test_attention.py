"""ot.attention against attention written out in f64, and against torch's own."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from conftest import Calls, normal, same, snr
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import octet.torch as ot
from octet.torch._attention import visible_pairs

ops = torch.ops.octet
opcheck = torch.library.opcheck
DTYPES = {torch.float32: 110, torch.float16: 60, torch.bfloat16: 46}  # and the dB that are wanted
pytestmark = pytest.mark.usefixtures("one_thread")


def visible(queries: int, keys: int, causal=False, window=None, align="bottom_right") -> Tensor:
    """Which keys a query sees, by the words of the docstring."""
    left, right = window or (None, None)
    place = torch.arange(queries)[:, None] + (keys - queries if align == "bottom_right" else 0)
    key = torch.arange(keys)[None, :]
    seen = torch.ones(queries, keys, dtype=torch.bool)
    if causal:
        seen &= key <= place
    if left is not None:
        seen &= key >= place - left
    if right is not None:
        seen &= key <= place + right
    return seen


def written_out(q, k, v, sink=None, scale=None, **mask) -> tuple[Tensor, Tensor]:
    """out [batch, seq, heads, dim] and lse [batch, heads, seq]."""
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    seen = visible(q.shape[2], k.shape[2], **mask)
    scores = q @ k.transpose(-1, -2) * (scale or q.shape[-1] ** -0.5)
    scores = scores.masked_fill(~seen, -math.inf)
    if sink is not None:
        scores = torch.cat((scores, sink[None, :, None, None].expand(*scores.shape[:-1], 1)), -1)
        v = torch.cat((v, v.new_zeros(*v.shape[:2], 1, v.shape[-1])), -2)
    any_key = (scores > -math.inf).any(-1, keepdim=True)
    scores = torch.where(any_key, scores, 0)
    weights = torch.where(any_key, scores.softmax(-1), 0)
    lse = torch.where(any_key, scores.logsumexp(-1, keepdim=True) if scores.shape[-1] else 0, -math.inf)
    return (weights @ v).transpose(1, 2), lse.squeeze(-1)


def inputs(batch=2, seq_q=37, seq_kv=37, heads=4, kv_heads=2, dim=16, dim_v=16, dtype=torch.float32, sink=False):
    shapes = (batch, seq_q, heads, dim), (batch, seq_kv, kv_heads, dim), (batch, seq_kv, kv_heads, dim_v)
    tensors = [normal(*shape, dtype=dtype, seed=seed) for seed, shape in enumerate(shapes)]
    return [*tensors, *([normal(heads, seed=3)] if sink else [])]


def with_sink(function, options):
    """A function of q, k, v and perhaps sink."""
    return lambda q, k, v, sink=None: function(q, k, v, sink=sink, **options)


def gradients(function, tensors, douts=None):
    """Results, and the gradients of the tensors."""
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    results = function(*leaves)
    results = results if isinstance(results, tuple) else (results,)
    douts = douts or [normal(*t.shape, dtype=t.dtype, seed=9 + i) for i, t in enumerate(results)]
    return [*(t.detach() for t in results), *torch.autograd.grad(results, leaves, douts)]


def finite(t: Tensor) -> Tensor:
    """For comparison: both sides must have the same infinities."""
    return torch.where(t.isinf(), 12345.0 * t.sign().nan_to_num(), t)


def compare(tensors, **options) -> None:
    """Results and gradients of a call with the lse's gradient, in the dtype of the tensors."""
    got = gradients(with_sink(ot.attention, {**options, "return_lse": True}), tensors)
    douts = [normal(*t.shape, dtype=t.dtype, seed=9 + i).double() for i, t in enumerate(got[:2])]
    want = gradients(with_sink(written_out, options), [t.double() for t in tensors], douts)
    assert len(got) == len(want)
    for name, a, b in zip(("out", "lse", "dq", "dk", "dv", "dsink"), got, want):
        assert a.shape == b.shape and torch.equal(a.isinf(), b.isinf()), name
        # dk and dq may be sums of nothing.
        assert snr(finite(a), finite(b)) > DTYPES[tensors[0].dtype] or (a.abs().max() < 1e-6 > b.abs().max()), name


MASKS = {
    "full": {},
    "causal": {"causal": True},
    "causal from the top": {"causal": True, "align": "top_left"},
    "window": {"window": (5, 3)},
    "window from the top": {"window": (2, 9), "align": "top_left"},
    "left window": {"window": (7, None)},
    "causal window": {"causal": True, "window": (4, None)},
}
LENGTHS = [(37, 37), (5, 70), (70, 5), (1, 33)]  # the longer side has rows, or keys, that see nothing


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("mask", MASKS)
def test_masks(mask, lengths):
    for sink in (False, True):
        compare(inputs(seq_q=lengths[0], seq_kv=lengths[1], sink=sink), **MASKS[mask])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (6, 1)], ids=str)
def test_dtypes_heads_and_scale(heads, dtype):
    tensors = inputs(heads=heads[0], kv_heads=heads[1], dim=24, dim_v=8, dtype=dtype, sink=True)
    compare(tensors, causal=True, scale=0.3)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_is_torchs_attention(dtype, causal):
    tensors = inputs(seq_q=65, seq_kv=65, dim=32, dim_v=32, dtype=dtype)

    def torchs(q, k, v):
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True).transpose(1, 2)

    got = gradients(lambda *t: ot.attention(*t, causal=causal, align="top_left"), tensors)
    douts = [normal(*got[0].shape, dtype=dtype, seed=9).double()]
    want = gradients(torchs, [t.double() for t in tensors], douts)
    assert all(snr(a, b) > DTYPES[dtype] for a, b in zip(got, want, strict=True))


def test_float32_results_of_bfloat16():
    tensors = inputs(dtype=torch.bfloat16)
    got = gradients(lambda *t: ot.attention(*t, out_dtype=torch.float32), tensors)
    want = gradients(
        lambda *t: written_out(*t)[0], [t.double() for t in tensors], [normal(*got[0].shape, seed=9).double()]
    )
    assert got[0].dtype == torch.float32 and got[1].dtype == torch.bfloat16
    assert snr(got[0], want[0]) > 110 and all(snr(a, b) > 46 for a, b in zip(got[1:], want[1:], strict=True))


def test_layouts_are_read_without_copies():
    q, k, v = inputs(heads=2, seq_q=19, seq_kv=19)
    want = gradients(lambda *t: ot.attention(*t, causal=True), (q, k, v))
    packed = torch.cat((q, k, v), 2)  # [batch, seq, heads, dim]
    heads_first = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v)]
    seq_first = [t.transpose(0, 1).contiguous().transpose(0, 1) for t in (q, k, v)]
    for views in (packed.split(2, 2), heads_first, seq_first):
        with Copies() as copies:
            out = ot.attention(*(t.requires_grad_() for t in views), causal=True)
        assert torch.equal(out, want[0]) and copies.count == 0
    # Gradients of a packed tensor, and of one that must be copied, whose gradient is expanded.
    got = gradients(lambda t: ot.attention(*t.split(2, 2), causal=True), (packed,))
    assert torch.equal(got[1], torch.cat(want[1:], 2))
    turned = [t.transpose(-1, -2).contiguous().transpose(-1, -2).requires_grad_() for t in (q, k, v)]
    out = ot.attention(*turned, causal=True)
    assert torch.equal(out, want[0])
    got, want = (
        torch.autograd.grad(ot.attention(*t, causal=True).sum(), t)
        for t in (turned, [t.requires_grad_() for t in (q, k, v)])
    )
    assert same(got, want)


class Copies(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts operators that copy a tensor."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function._opname in ("clone", "copy_", "_to_copy", "contiguous")
        return function(*args, **(kwargs or {}))


OFFSETS = {
    "two": ([0, 11, 30], [0, 20, 25]),
    "empty sequences": ([0, 0, 7, 7, 20, 20], [0, 5, 5, 9, 30, 30]),
    "rows behind the last": ([0, 9, 15], [0, 4, 12]),
    "none": ([0], [0]),
}


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("case", OFFSETS)
def test_sequences_of_different_lengths(case, dtype):
    offsets_q, offsets_kv = OFFSETS[case]
    behind = 3 if case == "rows behind the last" else 0
    q, k, v = (t[0] for t in inputs(batch=1, seq_q=offsets_q[-1] + behind, seq_kv=offsets_kv[-1] + behind))
    tensors = [q, k, v, normal(4, seed=3)]
    given = {"offsets_q": torch.tensor(offsets_q, dtype=dtype), "offsets_kv": torch.tensor(offsets_kv, dtype=dtype)}
    given |= {"max_seq_q": 40, "max_seq_kv": 40} if dtype == torch.int64 else {}
    options = {"causal": True, "window": (9, None), "return_lse": True}

    def each_alone(q, k, v, sink):
        outs, lses = [], []
        for (q0, q1), (k0, k1) in zip(itertools.pairwise(offsets_q), itertools.pairwise(offsets_kv), strict=True):
            out, lse = ot.attention(q[None, q0:q1], k[None, k0:k1], v[None, k0:k1], sink=sink, **options)
            outs, lses = [*outs, out[0]], [*lses, lse[0]]
        rest = 0 * (q[q.shape[0] - behind :] + sink[:, None])  # of everybody's gradient, and zeros
        rest = rest + 0 * (k.sum() + v.sum())
        return torch.cat((*outs, rest)), torch.cat((*lses, rest[..., 0].t() - math.inf), -1)

    got, want = gradients(with_sink(ot.attention, {**options, **given}), tensors), gradients(each_alone, tensors)
    assert same(got[:5], want[:5])  # a sequence alone has the same bits
    assert torch.equal(got[5], want[5]) or snr(got[5], want[5]) > 100


def test_nothing_at_all():
    for shape in ({"batch": 0}, {"seq_q": 0}, {"seq_kv": 0}, {"seq_q": 0, "seq_kv": 0}):
        out, lse, *grads = gradients(lambda *t: ot.attention(*t, causal=True, return_lse=True), inputs(**shape))
        assert not out.any() and (lse == -math.inf).all() and not any(g.any() for g in grads)


def test_the_same_bits_twice_and_in_any_batch():
    tensors = inputs(batch=3, seq_q=70, seq_kv=70)
    first, second = (gradients(lambda *t: ot.attention(*t, causal=True), tensors) for _ in range(2))
    assert same(first, second)
    douts = [normal(*first[0].shape, seed=9)[1:2]]
    alone = gradients(lambda *t: ot.attention(*t, causal=True), [t[1:2] for t in tensors], douts)
    assert same(alone, [t[1:2] for t in first])


def test_gradients_that_nobody_wants():
    q, k, v = inputs()
    q.requires_grad_()
    out, lse = ot.attention(q, k, v, return_lse=True)
    (alone,) = torch.autograd.grad(lse.sum(), q, retain_graph=True)  # of lse without out
    doubles = [t.detach().double().requires_grad_() for t in (q, k, v)]
    assert snr(alone, torch.autograd.grad(written_out(*doubles)[1].sum(), doubles[0])[0]) > 100
    out.sum().backward()
    assert k.grad is None and q.grad is not None
    with pytest.raises(RuntimeError, match="octet: attention_forward is differentiable once"):
        q.grad = None
        (dq,) = torch.autograd.grad(ot.attention(q, k, v).sum(), q, create_graph=True)
        dq.sum().backward()


def test_opcheck():
    q, k, v, sink = (t.requires_grad_() for t in inputs(seq_q=9, seq_kv=12, dim_v=8, sink=True))
    offsets, options = (torch.tensor([0, 4, 9]), torch.tensor([0, 12, 12])), (0, 0, 3, 0, 1, 0.0)
    given = [((q, k, v, sink, None, None), True), ((q[0], k[0], v[0], None, *offsets), False)]
    for tensors, with_dlse in given:
        opcheck(ops.attention_forward.default, (*tensors, *options, 0))
        fixed = [None if t is None else t.detach() for t in tensors]
        out, lse = ops.attention_forward(*fixed, *options, 0)
        dlse = torch.ones_like(lse) if with_dlse else None
        opcheck(ops.attention_backward.default, (torch.ones_like(out), dlse, *fixed, out, lse, *options))
    halves = [t.bfloat16() for t in (q, k, v)]
    opcheck(ops.attention_forward.default, (*halves, None, None, None, *options, 1))


def test_compiles_whole_with_any_length():
    def step(q, k, v, sink):
        out, lse = ot.attention(q, k, v, causal=True, window=(20, None), sink=sink, return_lse=True)
        return out * 2 + lse.transpose(1, 2).unsqueeze(-1)

    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend="aot_eager")
    with torch._dynamo.config.patch(error_on_recompile=True):
        for seq in (33, 40, 71):
            tensors = inputs(seq_q=seq, seq_kv=seq, sink=True)
            assert same(gradients(compiled, tensors), gradients(step, tensors))


def test_compiles_whole_with_offsets():
    def step(q, k, v, offsets):
        return ot.attention(q, k, v, causal=True, offsets_q=offsets, offsets_kv=offsets)

    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend="aot_eager")
    with torch._dynamo.config.patch(error_on_recompile=True):
        for lengths in ([9, 14], [3, 0, 30]):
            offsets = torch.tensor([0, *itertools.accumulate(lengths)])
            tensors = [t[0] for t in inputs(batch=1, seq_q=sum(lengths), seq_kv=sum(lengths))]
            assert same(
                gradients(lambda *t, o=offsets: compiled(*t, o), tensors),
                gradients(lambda *t, o=offsets: step(*t, o), tensors),
            )


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing(reentrant):
    leaves = [t.requires_grad_() for t in inputs(sink=True)]
    function = with_sink(ot.attention, {"causal": True})
    out = checkpoint(function, *leaves, use_reentrant=reentrant)
    out.backward(normal(*out.shape, seed=9))
    assert same([out, *(leaf.grad for leaf in leaves)], gradients(function, leaves))


def test_autocast():
    tensors = inputs(sink=True)
    function = with_sink(ot.attention, {"causal": True})
    with torch.autocast("cpu", torch.bfloat16):
        got = gradients(function, tensors)
    want = gradients(function, [t.bfloat16() if t.dim() == 4 else t for t in tensors])
    assert got[0].dtype == torch.bfloat16 and got[1].dtype == torch.float32
    assert all(torch.equal(a.float(), b.float()) for a, b in zip(got, want, strict=True))


def test_floating_point_operations():
    cases = [
        (q, k, left, right, align)
        for q in (0, 1, 4, 9)
        for k in (0, 1, 5, 9)
        for left in (-1, 0, 3)
        for right in (-1, 0, 2)
        for align in (1, 2)
    ]
    for q, k, left, right, align in cases:
        window = tuple(None if side < 0 else side for side in (left, right))
        seen = visible(q, k, window=window, align=("bottom_right", "top_left")[align - 1])
        assert visible_pairs(q, k, left, right, align) == seen.sum(), (q, k, left, right, align)
    for causal, pairs in ((False, 32 * 32), (True, 32 * 33 // 2)):
        tensors = [t.requires_grad_() for t in inputs(seq_q=32, seq_kv=32, dim_v=8)]
        with FlopCounterMode(display=False) as counter:
            ot.attention(*tensors, causal=causal).sum().backward()
        forward = 2 * 2 * 4 * pairs * (16 + 8)
        assert counter.get_total_flops() == forward + forward * 5 // 2
    offsets = torch.tensor([0, 10, 32])
    with FlopCounterMode(display=False) as counter:
        ot.attention(*(t[0] for t in inputs(batch=1, seq_q=32, seq_kv=32)), offsets_q=offsets, offsets_kv=offsets)
    assert counter.get_total_flops() == 2 * 4 * (10 * 10 + 22 * 22) * 32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_merged_parts_are_the_whole(dtype):
    q, k, v = inputs(seq_q=20, seq_kv=50, dtype=dtype)

    def merged(q, k, v):
        parts = []
        # Of the first part the first queries see nothing, of the last nobody sees anything.
        for begin, end, window in ((0, 30, (18, None)), (30, 50, None), (50, 50, None)):
            piece = k[:, begin:end], v[:, begin:end]
            parts.append(
                ot.attention(q, *piece, window=window, align="top_left", out_dtype=torch.float32, return_lse=True)
            )
        return ot.merge_attention(*zip(*parts))

    def whole(q, k, v):
        scores = (q.transpose(1, 2) @ k.repeat_interleave(2, 2).permute(0, 2, 3, 1)) / 4
        first = visible(20, 30, window=(18, None), align="top_left")
        scores = scores.masked_fill(~torch.cat((first, torch.ones(20, 20, dtype=torch.bool)), 1), -math.inf)
        return (scores.softmax(-1) @ v.repeat_interleave(2, 2).transpose(1, 2)).transpose(1, 2), scores.logsumexp(-1)

    got = gradients(merged, (q, k, v))
    want = gradients(
        whole, [t.double() for t in (q, k, v)], [normal(*t.shape, seed=9 + i).double() for i, t in enumerate(got[:2])]
    )
    assert all(snr(a, b) > DTYPES[dtype] for a, b in zip(got, want, strict=True))
    nothing = ot.merge_attention([torch.zeros(1, 2, 3, 4)] * 2, [torch.full((1, 3, 2), -math.inf)] * 2)
    assert not nothing[0].any() and (nothing[1] == -math.inf).all()
    with pytest.raises(ValueError, match="octet: merge_attention needs an lse for every result, got 2 and 1"):
        ot.merge_attention([q, q], [q])


def cut(t: Tensor, to: int) -> Tensor:
    return t[..., :to]


BAD = [
    (lambda q, k, v: ot.attention(q.int(), k, v), TypeError, "octet: q must be float32, float16 or bfloat16"),
    (lambda q, k, v: ot.attention(q, k.bfloat16(), v), TypeError, "octet: q, k and v must have the same dtype"),
    (
        lambda q, k, v: ot.attention(q[0], k, v),
        ValueError,
        "octet: q must be [batch, seq, heads, dim], got [37, 4, 16]",
    ),
    (
        lambda q, k, v: ot.attention(q, cut(k, 8), v),
        ValueError,
        "attention: k must be [batch, seq_kv, heads_kv, dim_qk]",
    ),
    (lambda q, k, v: ot.attention(q, k, v[:, 1:]), ValueError, "attention: v must be [batch, seq_kv, heads_kv, dim_v]"),
    (
        lambda q, k, v: ot.attention(q[:, :, :3], k, v),
        ValueError,
        "attention: heads_q must be a multiple of heads_kv = 2",
    ),
    (lambda q, k, v: ot.attention(q, k, v, sink=torch.ones(3)), ValueError, "attention: sink must be [heads_q] = [4]"),
    (lambda q, k, v: ot.attention(q, k, v, window=4), ValueError, "octet: window must be (left, right)"),
    (
        lambda q, k, v: ot.attention(q, k, v, window=(-2, 0)),
        ValueError,
        "octet: window must be (left, right), at least 0",
    ),
    (lambda q, k, v: ot.attention(q, k, v, align="left"), ValueError, "octet: align must be one of 'bottom_right'"),
    (lambda q, k, v: ot.attention(q, k, v, scale=0.0), ValueError, "octet: scale must be finite and not 0, got 0.0"),
    (
        lambda q, k, v: ot.attention(q, k, v, out_dtype=torch.float16),
        ValueError,
        "octet: out_dtype must be torch.float32",
    ),
    (lambda q, k, v: ot.attention(q, k, v, dropout_p=0.1), TypeError, "octet: attention has no dropout_p: the weights"),
    (
        lambda q, k, v: ot.attention(q, k, v, attn_mask=q),
        TypeError,
        "octet: attention has no attn_mask: masks are causal=",
    ),
    (lambda q, k, v: ot.attention(q, k, v, bias=q), TypeError, "octet: attention has no bias: nothing is added"),
    (lambda q, k, v: ot.attention(q, k, v, softcap=30.0), TypeError, "octet: attention has no softcap: the tanh"),
    (
        lambda q, k, v: ot.attention(q, k, v, is_causal=True),
        TypeError,
        "attention() got an unexpected keyword argument",
    ),
    (lambda q, k, v: ot.attention(q, k, v, max_seq_q=3), ValueError, "octet: max_seq_q must be at least 1, and is for"),
]


@pytest.mark.parametrize("call, kind, text", BAD, ids=[text[7:40] for _, _, text in BAD])
def test_bad_input_is_refused_in_words(call, kind, text):
    with pytest.raises(kind) as error:
        call(*inputs())
    assert str(error.value).startswith(text)


def test_bad_offsets_are_refused_in_words():
    q, k, v = (t[0] for t in inputs())
    good = torch.tensor([0, 10, 37])
    for offsets, kind, text in [
        (None, TypeError, "octet: offsets_q must be a torch.Tensor as the other offsets, got NoneType"),
        (good.float(), TypeError, "octet: offsets_q must be int32 or int64, got torch.float32"),
        (good.int(), TypeError, "octet: offsets_q and offsets_kv must have the same dtype"),
        (good[None], ValueError, "octet: offsets_q must have 1 dimensions, got 2"),
        (good[:2], ValueError, "attention: offsets_kv must be [batch + 1] = [2], got [3]"),
        (good + 1, ValueError, "attention: offsets_q[0] must be 0, got 1"),
        (good.flip(0) * 0 + torch.tensor([0, 38, 38]), ValueError, "attention: offsets_q[1] must be 0"),
    ]:
        with pytest.raises(kind) as error:
            ot.attention(q, k, v, offsets_q=offsets, offsets_kv=good)
        assert str(error.value).startswith(text)
    with pytest.raises(ValueError, match="octet: q must be \\[total, heads, dim\\] with offsets, got"):
        ot.attention(q[None], k, v, offsets_q=good, offsets_kv=good)
    with pytest.raises(ValueError, match="attention: sequence 1 has 27 rows in offsets_q, the problem allows 20"):
        ot.attention(q, k, v, offsets_q=good, offsets_kv=good, max_seq_q=20)
    q.requires_grad_()
    out = ot.attention(q, k, v, offsets_q=good, offsets_kv=good)
    good[0] = 5  # an error of backward has the same type
    with pytest.raises((ValueError, RuntimeError)):
        out.sum().backward()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_is_refused_with_a_value_error():
    with pytest.raises(ValueError, match="no implementation takes this problem"):
        ot.attention(*(t.cuda() for t in inputs()))


def test_a_block_calls_it_once_per_pass():
    tensors = [t.requires_grad_() for t in inputs()]
    with Calls() as calls:
        ot.attention(*tensors, causal=True).sum().backward()
    assert calls.seen == {"attention_forward": 1, "attention_backward": 1}
