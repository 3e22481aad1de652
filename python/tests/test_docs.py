"""The Python of README.md and docs/pytorch.md runs as written, top to bottom."""

import re
from pathlib import Path

import torch

import octet.torch as ot

TREE = Path(__file__).parents[2]


def blocks_of(text: str) -> list[str]:
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert blocks
    return blocks


def test_readme_runs():
    names: dict = {}
    for block in blocks_of((TREE / "README.md").read_text()):
        exec(block, names)
    assert all(isinstance(names["model"][i], ot.Linear) and names["model"][i].weight.grad is not None for i in (0, 2))


def test_page_runs(capsys):
    text = (TREE / "docs" / "pytorch.md").read_text()
    names: dict = {}
    blocks = blocks_of(text)
    for block in blocks:
        exec(block, names)
        for quoted in re.findall(r"print\(.*\)  # (.*)", block):
            assert capsys.readouterr().out.strip() == quoted
    assert names["model"][0].weight.grad.dtype == torch.bfloat16
    for name in ot.__all__:
        assert f"`{name}" in text or f"ot.{name}" in text, f"{name} is not in docs/pytorch.md"
