"""Stand-ins answer for a library on request, refuse where it is loaded, and leave nothing behind."""

import importlib
import importlib.util
import subprocess
import sys
from types import ModuleType

import pytest

from fgrad.compat import autograd as of_autograd
from fgrad.compat.standins import Installed, StandIn, absent, together

HARE = StandIn(
    "harelib",
    lambda: {
        "harelib": together({"ears": 2}, absent("harelib", {"wings": "hares run"})),
        "harelib.fur": lambda: {"colour": "brown"},
    },
)


def test_it_answers_while_it_is_installed():
    before = dict(sys.modules)
    with Installed(HARE):
        assert importlib.util.find_spec("harelib.fur").origin == "fgrad"
        library = importlib.import_module("harelib")
        assert library.ears == 2
        assert library.fur.colour == "brown"
        with pytest.raises(AttributeError, match=r"'harelib' has no attribute 'tail': fgrad, which answers"):
            _ = library.tail
        with pytest.raises(ModuleNotFoundError, match=r"no module named 'harelib\.tail': fgrad"):
            importlib.import_module("harelib.tail")
        with pytest.raises(NotImplementedError, match=r"fgrad has no harelib\.wings: hares run"):
            library.wings()
    assert dict(sys.modules) == before
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("harelib")


def test_names_are_made_when_they_are_asked_for():
    made = []

    def fur():
        made.append("fur")
        return {"colour": "brown", "length": 3}

    hare = StandIn(
        "harelib", lambda: {"harelib": lambda: {"ears": 2}, "harelib.ears": dict, "harelib.fur": fur}
    )
    with Installed(hare):
        library = importlib.import_module("harelib")
        assert library.ears == 2, "names win over modules"
        found = importlib.import_module("harelib.fur")
        assert made == []
        found.colour = "white"
        assert (found.colour, found.length) == ("white", 3)
        assert {"colour", "length"} <= {*dir(found)}
        assert made == ["fur"]
    space = {}
    with Installed(hare):
        exec("from harelib.fur import *", space)
    assert space["length"] == 3


def test_modules_find_their_names_after_it_went():
    with Installed(HARE):
        library = importlib.import_module("harelib")
    assert library.fur.colour == "brown"


def test_blocks_nest():
    with Installed(HARE):
        with Installed(HARE):
            pass
        assert HARE.is_installed()
    assert not HARE.is_installed()


def test_it_refuses_where_the_library_is_loaded(monkeypatch):
    monkeypatch.setitem(sys.modules, "harelib", ModuleType("harelib"))
    path = list(sys.meta_path)
    with pytest.raises(RuntimeError, match=r"harelib itself is loaded \(from no file\).*install\(\) before"):
        HARE.install()
    assert sys.meta_path == path
    HARE.uninstall()
    assert "harelib" in sys.modules


def test_the_module_of_the_library_is_not_found_in_its_place(tmp_path, monkeypatch):
    (tmp_path / "harelib").mkdir()
    (tmp_path / "harelib" / "__init__.py").write_text("ears = 3\n")
    (tmp_path / "harelib" / "paws.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with Installed(HARE):
        assert importlib.import_module("harelib").ears == 2
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("harelib.paws")


def run(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=120, check=False, cwd=cwd
    )


PROGRAM = """
import sys
import autograd
print(__name__, float(autograd.grad(lambda x: x**2)(3.0)), *sys.argv[1:])
"""


def test_programs_run_as_python_runs_them(tmp_path):
    (tmp_path / "program.py").write_text(f"import beside\n{PROGRAM}")
    (tmp_path / "beside.py").write_text("")
    runner = ("-m", "fgrad.compat.autograd")
    for given in (("program.py",), ("-m", "program"), ("-c", PROGRAM)):
        ran = run(*runner, *given, "-a", "b", cwd=tmp_path)
        assert ran.stdout == "__main__ 6.0 -a b\n", ran.stderr
    assert run(*runner, "-c", "raise SystemExit(3)").returncode == 3
    ran = run(*runner)
    assert ran.returncode == 2
    assert "what shall run?" in ran.stderr


def test_nothing_is_imported_before():
    text = "import sys, fgrad.compat.autograd as a; a.install(); print(*sys.modules)"
    loaded = run("-c", text).stdout.split()
    assert "fgrad.compat.autograd" in loaded
    assert not [name for name in loaded if name.startswith(("fgrad.compat.autograd.", "autograd"))]
    assert "fgrad.compat.autograd" not in run("-c", "import sys, fgrad; print(*sys.modules)").stdout.split()


def test_modules_of_scipy_are_loaded_when_they_are_asked_for():
    text = """
import sys, fgrad.compat.autograd
fgrad.compat.autograd.install()
from autograd.scipy.special import gammaln
slow = {"scipy.stats", "scipy.integrate", "fgrad.scipy.stats", "fgrad.scipy.integrate"}
print(*slow & set(sys.modules))
import autograd.scipy
print(autograd.scipy.stats.norm.cdf(0.0))
"""
    ran = run("-c", text)
    assert ran.stdout.split() == ["0.5"], ran.stderr


def test_jax_loads_no_scipy_until_a_function_needs_it():
    text = """
import sys, fgrad.compat.jax
fgrad.compat.jax.install()
import jax, jax.example_libraries.stax, jax.scipy.special, jax.scipy.stats.norm, jax.numpy.linalg
import jax.numpy as jnp
print(jax.grad(lambda x: jnp.sum(jax.nn.relu(x)))(jnp.ones(1))[0])
print(*{"scipy", "fgrad.optim", "fgrad.nn.layers"} & set(sys.modules))
print(jax.lax.erf(0.0), jax.scipy.stats.norm.cdf(0.0), jax.scipy.special.gammaln(1.0))
"""
    ran = run("-c", text)
    assert ran.stdout.split() == ["1.0", "0.0", "0.5", "0.0"], ran.stderr


def test_install_can_be_called_twice():
    if "autograd" in sys.modules:
        pytest.skip("autograd itself is loaded")
    of_autograd.install()
    try:
        of_autograd.install()
        assert sys.meta_path.count(of_autograd.STAND_IN) == 1
    finally:
        of_autograd.uninstall()
    of_autograd.uninstall()
    assert of_autograd.STAND_IN not in sys.meta_path
