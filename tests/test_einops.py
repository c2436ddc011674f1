"""einops on Tensors: like on arrays in value, differentiable, and imported by nobody but the user."""

from __future__ import annotations

import subprocess
import sys

import einops
import einops.array_api
import numpy as np
import pytest
from tests.helpers import close, exactly

import fgrad as fg
from fgrad import nn
from fgrad.testing import check_grads

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(2, 4, 6, 3))

CALLS = {
    "transpose": lambda x: einops.rearrange(x, "b h w c -> b c w h"),
    "flatten": lambda x: einops.rearrange(x, "b h w c -> (b h) (w c)"),
    "patches": lambda x: einops.rearrange(x, "b (h p) (w q) c -> b (h w) (p q c)", p=2, q=3),
    "new axis": lambda x: einops.rearrange(x, "b h w c -> b 1 h (w c)"),
    "ellipsis": lambda x: einops.rearrange(x, "b ... c -> c ... b"),
    "list": lambda x: einops.rearrange([x, 2 * x], "k b h w c -> b (k h) w c"),
    "max": lambda x: einops.reduce(x, "b (h 2) (w 2) c -> b h w c", "max"),
    "min": lambda x: einops.reduce(x, "b h w c -> c b", "min"),
    "mean": lambda x: einops.reduce(x, "b h w c -> b c", "mean"),
    "sum": lambda x: einops.reduce(x, "b h w c ->", "sum"),
    "prod": lambda x: einops.reduce(x, "b h w c -> h b 1 w", "prod"),
    "own reduction": lambda x: einops.reduce(x, "b h w c -> b h", lambda y, axes: nn.logsumexp(y, axes)),
    "repeat": lambda x: einops.repeat(x, "b h w c -> b (h 2) (k w) c", k=3),
    "repeat on a new axis": lambda x: einops.repeat(x, "b h w c -> k c h b w", k=2),
    "einsum": lambda x: einops.einsum(x, x, "b h w c, b k w c -> b h k"),
    "pack": lambda x: einops.pack([x, x[..., 0], 2 * x], "b h *")[0],
    "unpack": lambda x: einops.unpack(x, [(2,), (1,)], "b h w *")[1],
}


@pytest.mark.parametrize("name", CALLS)
def test_values_are_those_of_arrays(name):
    f = CALLS[name]
    t = fg.tensor(IMAGES)
    made = f(t)
    assert isinstance(made, fg.Tensor)
    close(made, f(IMAGES))


@pytest.mark.parametrize("name", CALLS)
def test_gradients_are_those_of_differences(name):
    check_grads(CALLS[name], (IMAGES,), order=2)


@pytest.mark.parametrize("name", ["patches", "max", "repeat", "pack"])
def test_mapped_and_staged(name):
    f = CALLS[name]
    stack = np.stack([IMAGES, 1 - IMAGES])
    close(fg.vmap(f)(stack), np.stack([f(x) for x in stack]))
    close(fg.make_graph(f)(fg.tensor(IMAGES))(fg.tensor(IMAGES)), f(IMAGES))


def test_arrays_beside_tensors():
    w = RNG.normal(size=(3, 5))
    check_grads(lambda w: einops.einsum(IMAGES, w, "b h w c, c d -> b d"), (w,))
    packed, shapes = einops.pack([np.ones((2, 3)), fg.tensor(np.ones((2, 4, 5)))], "b *")
    assert (packed.shape, shapes) == ((2, 23), [(3,), (4, 5)])


def test_truth_values_reduce():
    t = fg.tensor(IMAGES > 0)
    exactly(einops.reduce(t, "b h w c -> b", "any"), np.array([True, True]))
    exactly(einops.reduce(t, "b h w c -> b", "all"), np.array([False, False]))


def test_integers_have_no_mean():
    with pytest.raises(NotImplementedError, match="mean"):
        einops.reduce(fg.tensor([[1, 2]]), "a b -> a", "mean")


def test_patterns_that_do_not_fit():
    with pytest.raises(einops.EinopsError, match="shape"):
        einops.rearrange(fg.tensor(np.ones(5)), "(a b) -> a b", b=2)


def test_helpers():
    t = fg.tensor(IMAGES)
    assert einops.parse_shape(t, "b _ w c") == {"b": 2, "w": 6, "c": 3}
    exactly(einops.asnumpy(t), IMAGES)
    with pytest.raises(TypeError, match="would lose its gradient"):
        fg.grad(lambda x: einops.asnumpy(x).sum())(IMAGES)


def test_its_functions_for_the_array_api_standard():
    f = lambda x: einops.array_api.reduce(x, "b (h 2) w c -> c h", "max")
    close(f(fg.tensor(IMAGES)), einops.reduce(IMAGES, "b (h 2) w c -> c h", "max"))
    check_grads(f, (IMAGES,))


def run(*args):
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, check=False)


BEFORE = "import einops, fgrad"
AFTER = "import fgrad, sys; assert 'einops' not in sys.modules; import einops"
LOOKED_FOR = "import fgrad, importlib.util as u; assert u.find_spec('einops'); import einops"
NAMED = "import fgrad.einops, einops"
ROUND = "import fgrad, sys; import einops; del sys.modules['einops']; import einops"


@pytest.mark.parametrize("imports", [BEFORE, AFTER, LOOKED_FOR, NAMED, ROUND])
def test_whoever_is_imported_first(imports):
    script = f"{imports}; print(einops.rearrange(fgrad.tensor([[1., 2.]]), 'a b -> b a').shape)"
    script += "; assert type(einops.__loader__) is type(fgrad.__loader__) is type(einops.__spec__.loader)"
    done = run("-W", "error", "-c", script)
    assert (done.returncode, done.stdout) == (0, "(2, 1)\n"), done.stderr


def test_an_einops_without_the_interface_still_imports(tmp_path):
    (tmp_path / "einops.py").write_text("x = 1\n")
    script = "import fgrad, einops; print(einops.x)"
    path = [str(tmp_path), *sys.path]
    done = run("-c", f"import sys; sys.path[:] = {path!r}; {script}")
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_no_einops_at_all():
    script = (
        "import fgrad, sys\nsys.meta_path[1:] = []\ntry: import einops\nexcept ImportError as e: print(e)\n"
    )
    done = run("-c", script)
    assert (done.returncode, done.stdout) == (0, "No module named 'einops'\n"), done.stderr
