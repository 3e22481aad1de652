"""The Python of docs/pytorch.md runs as written, top to bottom."""

import re
from pathlib import Path

import torch

import octet.torch as ot


def test_page_runs(capsys):
    text = (Path(__file__).parents[2] / "docs" / "pytorch.md").read_text()
    names: dict = {}
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        exec(block, names)
        for quoted in re.findall(r"print\(.*\)  # (.*)", block):
            assert capsys.readouterr().out.strip() == quoted
    assert names["model"][0].weight.grad.dtype == torch.bfloat16
    for name in ot.__all__:
        assert f"`{name}" in text or f"ot.{name}" in text, f"{name} is not in docs/pytorch.md"
