"""What notebooks show of values, managers and programs."""

from __future__ import annotations

import base64
import re
import struct
import sys
import zlib
from html.parser import HTMLParser

import numpy as np
import pytest

import fgrad as fg
from fgrad.viz import image
from fgrad.viz.formatting import count, number, size, time


class Reader(HTMLParser):
    """Checks that tags are closed, and collects text and tags."""

    def __init__(self, html):
        super().__init__()
        self.open, self.text, self.tags = [], [], []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("img", "rect"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in ("img", "rect"):
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text.append(data)


def shown(x):
    return Reader(x._repr_html_())


def said(x):
    return " ".join(shown(x).text)


def test_a_small_tensor_is_a_table():
    t = fg.tensor([[1.0, -2.5], [0.0, np.nan]])
    page = shown(t)
    assert [x for x in page.text if x in ("1", "-2.5", "0", "nan")] == ["1", "-2.5", "0", "nan"]
    text = said(t)
    assert "float64[2,2] · 32 B · cpu" in text
    assert "min -2.5" in text
    assert "1 NaN" in text
    assert sum(tag == "td" for tag, _ in page.tags) == 4


def decoded(source):
    """Return the pixels of a PNG, by the format's definition."""
    data = base64.b64decode(source.partition(",")[2])
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(data):
        n = struct.unpack(">I", data[at : at + 4])[0]
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + n]
        assert struct.unpack(">I", data[at + 8 + n : at + 12 + n])[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + n
    width, height, depth, colour = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, colour) == (8, 6)
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + 4 * width)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, 4)


def test_a_larger_tensor_is_an_image_of_its_values():
    x = np.zeros((20, 30))
    x[3, 4], x[5, 6] = 2.0, -1.0
    (attributes,) = [a for tag, a in shown(fg.tensor(x)).tags if tag == "img"]
    pixels = decoded(attributes["src"])
    assert pixels.shape == (20, 30, 4)
    assert tuple(pixels[3, 4]) == (*image.POSITIVE, 255)
    assert tuple(pixels[5, 6]) == (*image.NEGATIVE, 128)
    assert pixels[..., 3].astype(int).sum() == 255 + 128  # zero is transparent
    assert (attributes["width"], attributes["height"]) == ("240", "160")


def test_a_large_axis_is_averaged():
    x = np.repeat(np.arange(96.0), 10)
    np.testing.assert_allclose(image.plane(x[None, :])[0], np.arange(96.0))
    uneven = image.plane(np.ones((1000, 7)))
    assert uneven.shape == (96, 7)
    np.testing.assert_allclose(uneven, 1.0)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (300,), (12, 5, 6), (2, 2, 3, 4, 5), (2000, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool, complex])
def test_every_shape_and_dtype_is_shown(shape, dtype):
    page = shown(fg.tensor(np.ones(shape, dtype)))
    images = sum(tag == "img" for tag, _ in page.tags)
    assert images == {(300,): 1, (12, 5, 6): 8, (2, 2, 3, 4, 5): 8, (2000, 3): 1}.get(shape, 0)
    assert f"{np.dtype(dtype).name}[{','.join(map(str, shape))}]" in " ".join(page.text)


def test_who_follows_a_tensor(monkeypatch):
    x = fg.tensor([1.0, 2.0])
    gm = fg.GradManager().attach(x)
    monkeypatch.setattr(sys.modules["__main__"], "gm", gm, raising=False)
    assert "gm" not in said(x)
    with gm:
        y = x * x
        assert "attached to gm" in said(x)
        assert "recorded by gm" in said(y)
        gm.backward(y)
    assert "‖grad‖ 4.472" in said(x)


def test_plain_text_stays_plain():
    assert repr(fg.tensor([1.0, 2.0])) == "Tensor([1., 2.])"
    assert str(fg.tensor([1.0, 2.0])) == "[1. 2.]"


def test_values_that_are_not_there():
    seen = []
    fg.make_graph(lambda x: seen.append(said(x)) or x)(np.ones((3, 2)))
    assert "float64[3,2]" in seen[0]
    assert "it exists as shape and dtype only while make_graph runs" in seen[0]


def test_one_of_many_examples():
    def f(x):
        assert "it stands for each of 3 examples" in said(x)
        assert "float64[2]" in said(x)
        return x

    fg.vmap(f)(np.ones((3, 2)))


def test_a_manager_says_what_it_holds():
    w, b = fg.tensor(np.ones((4, 3))), fg.tensor(np.zeros(3))
    gm = fg.GradManager().attach({"w": w, "b": b}, callback=lambda t, g: None)
    assert "not recording" in said(gm)
    with gm:
        y = np.tanh(np.ones((2, 4)) @ w + b)
        text = said(gm)
        assert re.search(r"tape: 3 operations, \d+ B kept", text), text
        assert int(re.search(r"(\d+) B kept", text)[1]) >= 6 * 8  # the output of tanh
        gm.backward(y.sum())
    text = said(gm)
    assert "['w'] float64[4,3]" in text
    assert f"{np.linalg.norm(w.grad.numpy()):.4g}" in text
    assert "tape" not in text
    assert "no tensors are attached" in said(fg.GradManager())
    assert "2 managers" in said(gm | fg.GradManager())


def test_a_program_says_its_lines():
    program = fg.make_graph(fg.grad(lambda x: np.sum(np.sin(x))))(np.ones(3))
    page = shown(program)
    text = " ".join(page.text)
    for words in (
        "cos(v0)",
        "float64[3]",
        "4 operations",
        "return",
        "test_html.py:",
    ):
        assert words in text
    long = fg.make_graph(lambda x: [x := np.sin(x) for _ in range(200)][-1])(1.0)
    assert "120 more" in said(long)


def test_names_of_users_are_escaped():
    w = fg.tensor(1.0)
    gm = fg.GradManager().attach({"<script>": w})
    assert "<script>" not in gm._repr_html_()
    program = fg.jit(lambda p: p["<i>"] + 1.0).lower({"<i>": 1.0}).program
    assert "<i>" not in program._repr_html_()
    assert "<i>" in said(program)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (size(0), "0 B"),
        (size(999), "999 B"),
        (size(24_600), "24.6 kB"),
        (size(3_200_000_000), "3.2 GB"),
        (time(3.21e-6), "3.21 µs"),
        (time(9.996e-4), "1 ms"),
        (time(12.0), "12 s"),
        (time(2.5e-8), "25 ns"),
        (count(1, "line"), "1 line"),
        (count(1200, "line"), "1,200 lines"),
        (number(1 / 3), "0.3333"),
        (number(np.int64(12)), "12"),
    ],
)
def test_numbers_in_words(made, expected):
    assert made == expected
