"""The Python of README.md and docs/pytorch.md runs as written, top to bottom, and they name what there is."""

import importlib
import re
from inspect import signature
from pathlib import Path

import pytest
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
        assert re.search(rf"(`|\bot\.){name}\b", text), f"{name} is not in docs/pytorch.md"


def test_signatures_have_every_argument():
    """The line of linear in docs/pytorch.md, in the order of the function."""
    text = (TREE / "docs" / "pytorch.md").read_text()
    quoted = re.search(r"^\| `linear\((.*?)\)` \|", text, re.MULTILINE)[1]
    assert [argument.partition("=")[0] for argument in quoted.split(", ")] == list(signature(ot.linear).parameters)


def test_there_is_no_jax():
    """docs/scope.md quotes it from here."""
    with pytest.raises(ModuleNotFoundError) as raised:
        importlib.import_module("octet.jax")
    assert raised.exconly() == "ModuleNotFoundError: No module named 'octet.jax'"
