"""fgrad and its peers as namespaces: NumPy's names, and under one name what each library calls differently.

A namespace without a name raises `AttributeError`, and that peer is left out of the program. PyTorch and
autograd have no `scan`: theirs is the loop that their users write.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import THREADS


class Namespace:
    """The names of a NumPy-like module, and those of this class over them."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)

    def scan(self, f, init, xs=None, length=None):
        carry, outs = init, []
        leaves = xs if isinstance(xs, (tuple, list)) else (xs,)
        for i in range(len(leaves[0]) if length is None else length):
            x = tuple(leaf[i] for leaf in leaves) if isinstance(xs, (tuple, list)) else xs
            x = xs[i] if xs is not None and not isinstance(xs, (tuple, list)) else x
            carry, out = f(carry, x)
            outs.append(out)
        if outs[0] is None:
            return carry, None
        if isinstance(outs[0], tuple):
            return carry, tuple(self.stack(list(column)) for column in zip(*outs))  # noqa: B905 -- all as long
        return carry, self.stack(outs)

    def fori(self, n, f, init):
        return self.scan(lambda c, _: (f(c), None), init, length=n)[0]


class Library:
    """How a library makes arrays and the timed function of a program."""

    namespace: Any

    def array(self, x):
        return x

    def compile(self, program):
        raise NotImplementedError

    def run(self, program, arguments) -> Callable[[], Any]:
        """Return the call that is timed: value and gradients, complete when it returns."""
        raise NotImplementedError


class Fgrad(Library):
    """fgrad on NumPy arrays."""

    def __init__(self, *, compiled: bool) -> None:
        import fgrad as fg
        import fgrad.numpy as fnp
        from fgrad.scipy import linalg, special

        class Names(Namespace):
            special: Any
            logsumexp = staticmethod(fg.nn.logsumexp)
            softmax = staticmethod(fg.nn.softmax)
            grad = staticmethod(fg.grad)
            vmap = staticmethod(fg.vmap)
            hessian = staticmethod(fg.hessian)
            jacobian = staticmethod(fg.jacrev)
            hvp = staticmethod(lambda f, x, v: fg.hvp(f, (x,), (v,))[1])
            stop_gradient = staticmethod(fg.stop_gradient)
            while_loop = staticmethod(fg.lax.while_loop)
            cond = staticmethod(fg.lax.cond)
            conv = staticmethod(fg.nn.conv)

            def scan(self, f, init, xs=None, length=None):
                return fg.lax.scan(f, init, xs, length)

            def max_pool(self, x, k):
                return fg.nn.max_pool(x, k)

            def solve_triangular(self, a, b, *, lower=True):
                return linalg.solve_triangular(a, b, lower=lower)

            def segment_sum(self, values, places, n):
                out = fnp.zeros((n, *values.shape[1:]), values.dtype)
                fnp.add.at(out, places, values)
                return out

        if compiled:  # as with JAX, what is imported is not counted: it takes 27 ms
            importlib.import_module("fgrad.compiler.executable")
        self.fg, self.compiled = fg, compiled
        self.namespace = Names(fnp)
        self.namespace.special = special

    def run(self, program, arguments):
        f = self.fg.value_and_grad(lambda *xs: program.function(self.namespace, *xs), argnums=program.wrt)
        if self.compiled:
            f = self.fg.jit(f)
        return lambda: f(*arguments)


class Jax(Library):
    """JAX, compiled."""

    def __init__(self) -> None:
        import jax
        import jax.numpy as jnp
        import jax.scipy as jsp

        jax.config.update("jax_enable_x64", True)

        class Names(Namespace):
            special = jsp.special
            logsumexp = staticmethod(jsp.special.logsumexp)
            softmax = staticmethod(jax.nn.softmax)
            grad = staticmethod(jax.grad)
            vmap = staticmethod(jax.vmap)
            hessian = staticmethod(jax.hessian)
            jacobian = staticmethod(jax.jacrev)
            hvp = staticmethod(lambda f, x, v: jax.jvp(jax.grad(f), (x,), (v,))[1])
            stop_gradient = staticmethod(jax.lax.stop_gradient)
            while_loop = staticmethod(jax.lax.while_loop)
            cond = staticmethod(jax.lax.cond)

            def scan(self, f, init, xs=None, length=None):
                return jax.lax.scan(f, init, xs, length)

            def conv(self, x, w, *, stride=1, padding="VALID"):
                return jax.lax.conv_general_dilated(x, w, (stride, stride), padding)

            def max_pool(self, x, k):
                window = (1, 1, k, k)
                return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")

            def solve_triangular(self, a, b, *, lower=True):
                return jax.lax.linalg.triangular_solve(
                    a, b[..., None] if b.ndim < a.ndim else b, left_side=True, lower=lower
                ).reshape(b.shape)

            def segment_sum(self, values, places, n):
                return jax.ops.segment_sum(values, places, n)

        self.jax, self.namespace, self.array = jax, Names(jnp), jnp.asarray

    def run(self, program, arguments):
        jax = self.jax
        f = jax.jit(jax.value_and_grad(lambda *xs: program.function(self.namespace, *xs), program.wrt))
        arguments = [jax.numpy.asarray(x) for x in arguments]
        return lambda: jax.block_until_ready(f(*arguments))


class Autograd(Library):
    """HIPS autograd."""

    def __init__(self) -> None:
        import autograd
        import autograd.numpy as anp
        from autograd.scipy import linalg, special

        class Names(Namespace):
            logsumexp = staticmethod(special.logsumexp)
            grad = staticmethod(autograd.grad)
            hessian = staticmethod(autograd.hessian)
            jacobian = staticmethod(autograd.jacobian)
            hvp = staticmethod(lambda f, x, v: autograd.grad(lambda y: anp.sum(autograd.grad(f)(y) * v))(x))

            def softmax(self, x, axis=-1):
                e = anp.exp(x - anp.max(x, axis, keepdims=True))
                return e / anp.sum(e, axis, keepdims=True)

            def solve_triangular(self, a, b, *, lower=True):
                return linalg.solve_triangular(a, b, lower=lower)

            def __getattr__(self, name):
                if name in {"while_loop", "cond", "conv", "max_pool", "vmap", "segment_sum", "stop_gradient"}:
                    raise AttributeError(name)
                return getattr(anp, name)

        Names.special = special
        self.autograd, self.namespace = autograd, Names(anp)

    def run(self, program, arguments):
        f = self.autograd.value_and_grad(
            lambda xs: program.function(
                self.namespace,
                *[xs[program.wrt.index(i)] if i in program.wrt else x for i, x in enumerate(arguments)],
            )
        )
        leaves = tuple(arguments[i] for i in program.wrt)
        return lambda: f(leaves)


def torch_namespace(torch: Any) -> Any:
    """Return PyTorch's functions under NumPy's names and signatures."""
    functional, func = torch.nn.functional, torch.func

    def tensor(x):
        return x if isinstance(x, torch.Tensor) else torch.as_tensor(x, dtype=torch.float64)

    def pair(f):
        def apply(x, y):
            if not isinstance(x, torch.Tensor):
                x = torch.as_tensor(x, dtype=y.dtype)
            if not isinstance(y, torch.Tensor):
                y = torch.as_tensor(y, dtype=x.dtype)
            return f(x, y)

        return apply

    def of_axis(f):
        def apply(x, axis=None, keepdims=False):
            return (
                f(x, keepdim=keepdims) if axis is None and not keepdims else f(x, dim=axis, keepdim=keepdims)
            )

        return apply

    class Linalg:
        def __getattr__(self, name):
            return getattr(torch.linalg, name)

        def qr(self, a):
            return torch.linalg.qr(a)

        def svd(self, a, full_matrices=True):
            return torch.linalg.svd(a, full_matrices=full_matrices)

        def norm(self, x, axis=None):
            return torch.linalg.vector_norm(x, dim=axis)

    class Fft:
        def __getattr__(self, name):
            f = getattr(torch.fft, name)
            return lambda x, n=None, axis=-1: f(x, n=n, dim=axis)

        def fft2(self, x):
            return torch.fft.fft2(x)

        def ifft2(self, x):
            return torch.fft.ifft2(x)

    class Special:
        ndtr, log_ndtr, digamma, gammaln = (
            getattr(torch.special, n) for n in ("ndtr", "log_ndtr", "digamma", "gammaln")
        )
        erf, erfc, erfinv, expit, i0e, i1e, gammainc = (
            getattr(torch.special, n) for n in ("erf", "erfc", "erfinv", "expit", "i0e", "i1e", "gammainc")
        )
        ndtri, j0, j1, xlogy = (
            torch.special.ndtri,
            torch.special.bessel_j0,
            torch.special.bessel_j1,
            torch.xlogy,
        )

        @staticmethod
        def polygamma(n, x):
            return torch.special.polygamma(n, x)

        @staticmethod
        def betaln(a, b):
            return torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)

    class Names(Namespace):
        linalg, fft, special = Linalg(), Fft(), Special()
        pi, inf = np.pi, np.inf
        maximum, minimum = staticmethod(pair(torch.maximum)), staticmethod(pair(torch.minimum))
        arctan2, hypot = staticmethod(pair(torch.atan2)), staticmethod(pair(torch.hypot))
        logaddexp = staticmethod(pair(torch.logaddexp))
        power = staticmethod(torch.pow)
        abs, tanh = torch.abs, torch.tanh
        vmap, grad = staticmethod(func.vmap), staticmethod(func.grad)
        hessian, jacobian = staticmethod(func.hessian), staticmethod(func.jacrev)
        einsum = staticmethod(torch.einsum)
        max, min = staticmethod(of_axis(torch.amax)), staticmethod(of_axis(torch.amin))
        conj = staticmethod(torch.conj)
        array = asarray = staticmethod(lambda x: torch.as_tensor(x))  # noqa: PLW0108
        expand_dims = staticmethod(lambda x, axis: torch.unsqueeze(x, axis))  # noqa: PLW0108

        def hvp(self, f, x, v):
            return func.jvp(func.grad(f), (x,), (v,))[1]

        def stop_gradient(self, x):
            return x.detach()

        def sum(self, x, axis=None, keepdims=False):
            return torch.sum(x) if axis is None else torch.sum(x, dim=axis, keepdim=keepdims)

        def mean(self, x, axis=None, keepdims=False):
            return torch.mean(x) if axis is None else torch.mean(x, dim=axis, keepdim=keepdims)

        def var(self, x, axis=None, keepdims=False):
            return torch.var(x, dim=axis, correction=0, keepdim=keepdims)

        def std(self, x, axis=None):
            return torch.std(x, dim=axis, correction=0)

        def cumsum(self, x, axis=0):
            return torch.cumsum(x, axis)

        def cumprod(self, x, axis=0):
            return torch.cumprod(x, axis)

        def stack(self, xs, axis=0):
            return torch.stack([tensor(x) for x in xs], axis)

        def concatenate(self, xs, axis=0):
            return torch.cat(list(xs), axis)

        def roll(self, x, shift, axis=None):
            return torch.roll(x, shift, axis)

        def sort(self, x, axis=-1):
            return torch.sort(x, dim=axis).values

        def argsort(self, x, axis=-1):
            return torch.argsort(x, dim=axis)

        def swapaxes(self, x, a, b):
            return torch.swapaxes(x, a, b)

        def pad(self, x, width):
            return functional.pad(x, (width,) * (2 * x.ndim))

        def transpose(self, x, axes):
            return torch.permute(x, axes)

        def logsumexp(self, x, axis=None):
            return torch.logsumexp(x, tuple(range(x.ndim)) if axis is None else axis)

        def softmax(self, x, axis=-1):
            return torch.softmax(x, axis)

        def take_along_axis(self, x, places, axis):
            return torch.take_along_dim(x, places, axis)

        def trace(self, x):
            return torch.diagonal(x, dim1=-2, dim2=-1).sum(-1)

        def diagonal(self, x, offset=0, axis1=0, axis2=1):
            return torch.diagonal(x, offset, axis1, axis2)

        def clip(self, x, low, high):
            return torch.clamp(x, low, high)

        def conv(self, x, w, *, stride=1, padding="VALID"):
            return functional.conv2d(x, w, stride=stride, padding=padding.lower() if stride == 1 else 0)

        def max_pool(self, x, k):
            return functional.max_pool2d(x, k)

        def solve_triangular(self, a, b, *, lower=True):
            if b.ndim < a.ndim:
                return torch.linalg.solve_triangular(a, b[..., None], upper=not lower)[..., 0]
            return torch.linalg.solve_triangular(a, b, upper=not lower)

        def segment_sum(self, values, places, n):
            return torch.zeros((n, *values.shape[1:]), dtype=values.dtype).index_add(0, places, values)

        def searchsorted(self, x, v):
            return torch.searchsorted(x, v.contiguous())

        def where(self, c, x, y):
            return torch.where(c, x, y)

        def while_loop(self, go, body, state):
            while go(state):
                state = body(state)
            return state

        def cond(self, p, f, g, *xs):
            return f(*xs) if p else g(*xs)

    return Names(torch)


class Torch(Library):
    """PyTorch, eager."""

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(int(THREADS))
        torch.set_default_dtype(torch.float64)  # NumPy's, for what has no dtype of its inputs
        self.torch, self.namespace = torch, torch_namespace(torch)

    def run(self, program, arguments):
        torch = self.torch
        tensors = [torch.tensor(x) for x in arguments]
        leaves = [tensors[i].requires_grad_() for i in program.wrt]

        def run():
            value = program.function(self.namespace, *tensors)
            return value.detach(), torch.autograd.grad(value, leaves)

        return run


LIBRARIES: dict[str, Callable[[], Library]] = {
    "compiled": lambda: Fgrad(compiled=True),
    "jax": Jax,
    "eager": lambda: Fgrad(compiled=False),
    "torch": Torch,
    "autograd": Autograd,
}
MODULES = {"jax": "jax", "torch": "torch", "autograd": "autograd"}


def installed(peer: str) -> bool:
    """Tell whether the library of `peer` can be imported."""
    return peer not in MODULES or importlib.util.find_spec(MODULES[peer]) is not None
