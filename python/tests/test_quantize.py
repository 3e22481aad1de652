"""Quantised tensors: exact values, layouts, errors."""

import ctypes

import pytest
import torch
from c_api import Layout, check, sized
from conftest import exact, normal, snr

import octet.torch as ot
from octet._library import liboctet
from octet.torch._formats import ALL, BLOCKS


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("block", ["1x128", "128x1", "128x128"])
@pytest.mark.parametrize("shape", [(1, 1), (40, 256), (130, 300)])
def test_integers_survive(shape, block, transposed, dtype):
    x = exact(*shape, dtype)
    q = ot.quantize(x, block, transposed=transposed)
    want = x.t() if transposed else x
    assert q.values.dtype == torch.float8_e4m3fn and q.values.shape == want.shape
    assert torch.equal(ot.dequantize(q, dtype), want)


def test_scales_are_the_largest_magnitude_over_448():
    x = normal(130, 300)
    q = ot.quantize(x)
    amax = torch.stack([x[:, i : i + 128].abs().amax(1) for i in range(0, 300, 128)], 1)
    torch.testing.assert_close(q.scales, amax / 448, rtol=3e-7, atol=0)
    values = q.values.float() * q.scales.repeat_interleave(128, 1)[:, :300]
    assert torch.equal(values, ot.dequantize(q))
    assert snr(values, x) > 28


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("format", ["e4m3", "e5m2"])
@pytest.mark.parametrize("block", list(BLOCKS))
@pytest.mark.parametrize("rows, cols", [(1, 1), (130, 300)])
def test_dequantize_has_the_bits_of_torch(rows, cols, block, format, dtype):
    q = ot.quantize(normal(rows, cols), block, format=format)
    scales = q.scales.float()
    for dim, size in enumerate(BLOCKS[block]):
        if size != ALL:
            scales = scales.repeat_interleave(size, dim)
    want = (q.values.float() * scales[:rows, :cols]).to(dtype)
    assert torch.equal(ot.dequantize(q, dtype), want)
    assert not ot.dequantize(q, dtype).requires_grad


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("rows, cols", [(0, 5), (3, 0), (0, 0)])
def test_scales_without_elements_are_those_of_zeros(rows, cols, transposed):
    """Scales of whole rows, columns and tensors; smaller blocks have none there."""
    counts = {}
    for block in ("1xall", "allx1", "allxall", "1x128", "128x128", "1x32"):
        for options in ({}, {"amax_floor": 7.0}, {"amax_floor": 7.0, "pow2_scales": True}):
            if block == "1x32" and options:
                continue  # their scales have no options
            x = torch.empty(cols, rows) if transposed else torch.empty(rows, cols)
            q = ot.quantize(x, block, transposed=transposed, **options)
            assert ot.dequantize(q).shape == (rows, cols)
            counts[block] = q.scales.numel()
            if counts[block] == 0:
                continue
            zeros = ot.quantize(torch.zeros(max(rows, 1), max(cols, 1)), block, **options)
            assert torch.equal(q.scale_data, zeros.scale_data)
            assert options or (q.scale_data == 1).all()
    assert counts == {"1xall": rows, "allx1": cols, "allxall": 1, "1x128": 0, "128x128": 0, "1x32": 0}


def test_dequantize_refuses_parts_on_two_devices():
    q = ot.quantize(normal(10, 128))
    apart = ot.Quantized(q.data, q.scale_data.to("meta"), q.rows, q.cols, q.format, q.block)
    with pytest.raises(ValueError, match="octet: q has values on cpu and scales on meta"):
        ot.dequantize(apart)


def test_options():
    x = normal(10, 128)
    assert ot.quantize(x, format="e5m2").values.dtype == torch.float8_e5m2
    scales = ot.quantize(x, pow2_scales=True).scales
    assert torch.equal(scales, scales.log2().round().exp2())
    assert torch.equal(ot.quantize(x, amax_floor=448.0).scales, torch.ones(10, 1))
    assert not ot.quantize(x.requires_grad_()).scales.requires_grad


@pytest.mark.parametrize(
    "call, kind, text",
    [
        (lambda x: ot.quantize(x, "2x2"), ValueError, "octet: block must be one of '1x128', '128x1', '128x128'"),
        (lambda x: ot.quantize(x[0]), ValueError, "octet: x must be a matrix [rows, cols], got [128]"),
        (lambda x: ot.quantize(x.int()), TypeError, "octet: x must be float32, float16 or bfloat16"),
        (lambda x: ot.quantize(x, amax_floor=-1.0), ValueError, "quantize: amax_floor"),
        (lambda x: ot.dequantize(x), TypeError, "octet: q must be an octet.torch.Quantized, got Tensor"),
        (lambda x: ot.dequantize(ot.quantize(x), torch.int8), ValueError, "octet: dtype must be one of torch.float32"),
    ],
)
def test_bad_input_is_refused_in_words(call, kind, text):
    with pytest.raises(kind) as error:
        call(normal(10, 128))
    assert str(error.value).startswith(text)


class Pair(ctypes.Structure):
    _fields_ = [("rows", ctypes.c_int64), ("cols", ctypes.c_int64)]


def test_layouts_are_those_of_the_c_library():
    """Shapes and strides from octet_make_quantized_layout, through ctypes."""
    for rows, cols in [(1, 1), (3, 129), (130, 300), (128, 512)]:
        for name, block in {"1x128": (1, 128), "128x1": (128, 1), "128x128": (128, 128)}.items():
            layout = sized(Layout)
            make = liboctet().octet_make_quantized_layout
            check(make(ctypes.c_int64(rows), ctypes.c_int64(cols), 4, Pair(*block), ctypes.byref(layout)))
            q = ot.quantize(normal(rows, cols), name)
            assert q.data.shape == (rows, layout.pitch)
            assert tuple(q.scales.shape) == tuple(layout.scale_shape)
            for i in range(2):
                assert layout.scale_shape[i] == 1 or q.scales.stride(i) == layout.scale_strides[i]
