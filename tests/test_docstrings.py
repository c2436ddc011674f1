"""What the reference says of each name outside of fgrad.numpy, and that its examples are true."""

from __future__ import annotations

import inspect
import re
from importlib import import_module

import numpy as np
import pytest
import scipy.special
import scipy.stats
from tests.helpers import wrong_examples
from tests.numpy.docstrings import sections

import fgrad.scipy.stats
from fgrad.docstrings import completes
from fgrad.scipy.stats.descriptions import SAID
from fgrad.scipy.stats.families import Continuous, Distribution

MODULES = [
    "fgrad",
    "fgrad.debug",
    "fgrad.distributed",
    "fgrad.extend",
    "fgrad.lax",
    "fgrad.nn",
    "fgrad.nn.initializers",
    "fgrad.nn.layers",
    "fgrad.optim",
    "fgrad.random",
    "fgrad.scipy.integrate",
    "fgrad.scipy.optimize",
    "fgrad.scipy.sparse",
    "fgrad.scipy.sparse.linalg",
    "fgrad.scipy.stats",
    "fgrad.sparse",
    "fgrad.testing",
    "fgrad.tree",
    "fgrad.viz",
]
NO_EXAMPLE = {
    "fgrad.CacheWarning": "somebody else must have written the cache",
    "fgrad.RankTimeoutError": "it would have to wait for a rank that does not come",
    "fgrad.distributed.init": "needs MPI",
    "fgrad.extend.device_memory": "needs a GPU",
    "fgrad.load_ipython_extension": "IPython calls it",
}
DISTRIBUTIONS = {n: getattr(fgrad.scipy.stats, n) for n in dir(fgrad.scipy.stats) if not n.startswith("_")}
FAMILIES = {n: d for n, d in DISTRIBUTIONS.items() if isinstance(d, Distribution)}


def offered(path):
    """Return what a module offers that is called, by its full name."""
    module = import_module(path)
    found = {f"{path}.{name}": getattr(module, name) for name in dir(module) if not name.startswith("_")}
    own = {name: x for name, x in found.items() if getattr(x, "__module__", "").startswith("fgrad")}
    assert own
    return own


@pytest.mark.parametrize("path", MODULES)
def test_each_name_has_an_example(path):
    without = {name for name, x in offered(path).items() if ">>> " not in (inspect.getdoc(x) or "")}
    assert without == {name for name in NO_EXAMPLE if name.rpartition(".")[0] == path}


@pytest.mark.parametrize("path", MODULES)
def test_each_function_says_what_it_takes_and_returns(path):
    lacks = {}
    for name, f in offered(path).items():
        if not inspect.isroutine(f):
            continue
        signature = inspect.signature(f)
        titles = set(re.findall(r"^([A-Z][A-Za-z ]*):$", inspect.getdoc(f), re.MULTILINE))
        needed = {"Args"} if signature.parameters else set()
        needed |= {"Returns"} if signature.return_annotation not in {None, "None"} else set()
        if needed - titles:
            lacks[name] = needed - titles
    assert not lacks


@pytest.mark.parametrize("path", [*MODULES, "fgrad.scipy.ndimage"])
def test_each_function_says_what_all_of_its_arguments_are(path):
    lacks = {}
    for name, f in offered(path).items():
        said = sections(f).get("Args") if inspect.isroutine(f) else None
        if said is not None:
            heads = re.findall(r"^    \**([\w, *]+): ", f"    {said}", re.MULTILINE)
            known = {word.strip(" *") for head in heads for word in head.split(",")}
            lacks[name] = set(inspect.signature(f).parameters) - known
    assert not {name: missing for name, missing in lacks.items() if missing}


def test_docstrings_are_completed():
    @completes({"x": "a number.", "z": "no parameter."}, Returns="A number.", Derivative="The factor.")
    def scaled(x, by):
        """Return a multiple.

        Args:
            by: the factor,
                a number too.

        Derivative:
            `by`.
        """

    lines = ["Return a multiple.", "", "Args:", "    x: a number.", "    by: the factor,"]
    lines += ["        a number too.", "", "Returns:", "    A number.", "", "Derivative:", "    `by`."]
    assert scaled.__doc__.splitlines() == lines
    assert completes({}, Returns="None.")(lambda: None).__doc__ is None
    with pytest.raises(ValueError, match="Colour"):
        completes({}, Colour="Red.")(scaled)


def test_each_family_is_described():
    assert set(FAMILIES) == set(SAID)
    assert len(FAMILIES) > 35


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_example_of_a_distribution(name):
    assert not wrong_examples(inspect.getdoc(DISTRIBUTIONS[name]), name)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_formula_of_a_family_is_its_density(name):
    family = FAMILIES[name]
    given = eval(f"[{SAID[name].arguments}]", {"__builtins__": {}})
    words = {n: getattr(np, n) for n in ("exp", "sqrt", "log", "cos", "pi", "abs")}
    words |= {n: getattr(scipy.special, n) for n in ("gamma", "beta", "ndtr", "comb", "factorial", "i0")}
    words |= dict(zip(("x" if isinstance(family, Continuous) else "k", *family.shapes), given, strict=True))
    theirs = getattr(scipy.stats, name)
    expected = (theirs.pdf if isinstance(family, Continuous) else theirs.pmf)(*given)
    assert eval(SAID[name].density, {"__builtins__": {}}, words) == pytest.approx(expected, rel=1e-12)
