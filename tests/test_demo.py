from __future__ import annotations

import io
import re
import subprocess
import sys
from functools import partial
from itertools import islice

import numpy as np
import pytest

import fgrad as fg
from fgrad.demo import digits, report, run, styles


@pytest.fixture
def few(rng):
    """Parameters and the first of an endless run of batches."""
    training, _ = digits.split(rng)
    return styles.initial(rng), list(islice(digits.batches(rng, training, 32, 1), 20))


# The data.


def test_digits_are_those_of_uci():
    images, labels = digits.load()
    assert (images.shape, images.dtype, labels.shape, labels.dtype) == (
        (1797, 8, 8),
        "uint8",
        (1797,),
        "uint8",
    )
    assert (images.min(), images.max()) == (0, 16)
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_split_keeps_every_example_once(rng):
    training, held_out = digits.split(rng)
    together = np.concatenate([training.images, held_out.images])
    images, labels = digits.load()
    assert sorted(map(bytes, (together * 16).astype("uint8"))) == sorted(map(bytes, images))
    assert np.array_equal((training.targets.sum(0) + held_out.targets.sum(0)), np.bincount(labels))


def test_every_epoch_draws_each_example_at_most_once(rng):
    numbers = np.arange(10.0)[:, None]
    drawn = [b.images.ravel() for b in digits.batches(rng, digits.Examples(numbers, numbers), 3, epochs=4)]
    assert [len(b) for b in drawn] == [3] * 12
    epochs = np.concatenate(drawn).reshape(4, 9)
    assert all(len(set(e)) == 9 for e in epochs)
    assert not np.array_equal(epochs[0], epochs[1])


# The three styles.


@pytest.mark.parametrize("name", [n for n in styles.STYLES if n != "value_and_grad"])
def test_styles_take_the_same_steps(few, name):
    params, batches = few
    expected = [float(value) for value, _ in styles.functional(params, batches)]
    found = [float(value) for value, _ in styles.STYLES[name](params, batches)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("style", styles.STYLES.values(), ids=styles.STYLES)
def test_training_leaves_the_first_guess_alone(few, style):
    params, batches = few
    before = fg.tree.map(np.copy, params)
    list(style(params, batches))
    for name, value in params.items():
        assert np.array_equal(value, before[name])


def test_our_rule_is_the_derivative(rng):
    scores, targets = rng.normal(size=(5, 10)), np.eye(10)[:5]
    by_rule = fg.grad(styles.cross_entropy_by_rule)(scores, targets)
    np.testing.assert_allclose(
        by_rule, fg.grad(styles.cross_entropy)(scores, targets), rtol=1e-12, atol=1e-15
    )


def test_loss_differentiates(few):
    params, batches = few
    fg.testing.check_grads(lambda p: styles.loss(p, *batches[0]), (params,), order=1)


# The run.


def test_short_run_agrees_and_reports(capsys):
    assert run.main(epochs=2, seed=1) == 0
    out, err = capsys.readouterr()
    assert err == ""  # no bar where there is no terminal
    assert all(name in out for name in styles.STYLES)
    assert "The losses agree to rounding" in out


def test_disagreement_fails_the_run(capsys, monkeypatch):
    wrong = partial(styles.functional, loss=lambda *args: 1.001 * styles.loss(*args))
    monkeypatch.setitem(run.STYLES, "custom rule", wrong)
    assert run.main(epochs=1, seed=0) == 1
    assert "The losses DISAGREE" in capsys.readouterr().out


def test_nan_fails_the_run(capsys, monkeypatch):
    broken = partial(styles.functional, loss=lambda *args: np.nan * styles.loss(*args))
    monkeypatch.setitem(run.STYLES, "custom rule", broken)
    assert run.main(epochs=1, seed=0) == 1
    assert "The losses DISAGREE" in capsys.readouterr().out


def test_main_job_learns():
    done = subprocess.run(
        [sys.executable, "-m", "fgrad", "demo"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^(.+?) +(\d\.\d+) +(\d\.\d+) +(\d+)$", done.stdout, re.MULTILINE)
    assert [name for name, *_ in rows] == list(styles.STYLES)
    assert all(float(accuracy) >= 0.96 for _, _, accuracy, _ in rows)
    assert len({loss for _, loss, *_ in rows}) == 1


# What is shown.


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_bar_fills_on_a_terminal():
    screen = Terminal()
    assert list(report.progress(2, "training", screen, width=4)) == [0, 1]
    assert screen.getvalue() == "\rtraining         [##  ] 1/2\rtraining         [####] 2/2\n"


def test_curve_of_one_value_is_a_point():
    lines = report.curve({"*": [0.5]}, width=5, height=4).splitlines()
    assert sum(line.count("*") for line in lines) == 1
    assert len(lines) == 5


def test_curve_falls_from_the_first_to_the_last_row():
    lines = report.curve({"*": [1.0, 1e-3]}, width=8, height=5).splitlines()
    assert lines[0].endswith("1 |*")
    assert lines[4].endswith("0.001 |       *")
