"""What the compilers that are compared call the same things, behind one interface for the programs."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import numpy as np

from benchmarks import THREADS


class Library:
    """NumPy's names as `xp`, transformations under JAX's names, and how to compile, give and wait."""

    xp = np

    def arrays(self, inputs):
        """Return the arguments as arrays of this library."""
        return inputs

    def value_and_grad_after(self, f, first):
        """Return value_and_grad in all arguments from `first` on."""
        return lambda *args: self.value_and_grad(f, tuple(range(first, len(args))))(*args)

    def ready(self, program, inputs):
        """Return a function without arguments that runs the compiled program to its end."""
        f, args = self.compiled(program(self)), self.arrays(inputs)
        return lambda: f(*args)


class Fgrad(Library):
    """NumPy's own functions on NumPy's arrays."""

    def __init__(self):
        import fgrad as fg  # noqa: PLC0415 -- a library is loaded when its turn comes
        import fgrad.numpy as fnp  # noqa: PLC0415

        self.module, self.zeros = fg, fnp.zeros
        self.value_and_grad, self.vmap = fg.value_and_grad, fg.vmap
        self.jacfwd, self.jacrev, self.hessian = fg.jacfwd, fg.jacrev, fg.hessian
        self.scan, self.compiled = fg.lax.scan, fg.jit

    def logsumexp(self, x, axis):
        return self.module.nn.logsumexp(x, axis)

    def log_softmax(self, x, axis):
        return self.module.nn.log_softmax(x, axis)

    def placed(self, values, where, shape):
        """Return zeros of `shape` with `values` at the index `where`."""
        out = self.zeros(shape)
        out[where] = values
        return out


class Jax(Library):
    """jax.jit in double precision, on arrays of its own."""

    def __init__(self):
        import jax  # noqa: PLC0415

        jax.config.update("jax_enable_x64", True)
        self.module, self.xp = jax, import_module("jax.numpy")
        self.value_and_grad, self.vmap = jax.value_and_grad, jax.vmap
        self.jacfwd, self.jacrev, self.hessian = jax.jacfwd, jax.jacrev, jax.hessian
        self.scan, self.compiled = jax.lax.scan, jax.jit

    def arrays(self, inputs):
        return tuple(map(self.xp.asarray, inputs))

    def ready(self, program, inputs):
        run = super().ready(program, inputs)
        return lambda: self.module.block_until_ready(run())

    def logsumexp(self, x, axis):
        return self.module.nn.logsumexp(x, axis)

    def log_softmax(self, x, axis):
        return self.module.nn.log_softmax(x, axis)

    def placed(self, values, where, shape):
        return self.xp.zeros(shape).at[where].set(values)


class Torch(Library):
    """Eager PyTorch: what is not compiled, to show what compiling brings."""

    def __init__(self):
        import torch  # noqa: PLC0415

        torch.set_num_threads(int(THREADS))
        self.module = self.xp = torch
        self.vmap, self.jacrev = torch.func.vmap, torch.func.jacrev
        self.jacfwd, self.hessian = torch.func.jacfwd, torch.func.hessian

    def arrays(self, inputs):
        return tuple(map(self.module.tensor, inputs))

    def compiled(self, f):
        return f

    def value_and_grad(self, f, argnums=0):
        places = (argnums,) if isinstance(argnums, int) else argnums

        def run(*args):
            args = [a.detach().requires_grad_() if i in places else a for i, a in enumerate(args)]
            value = f(*args)
            found = self.module.autograd.grad(value, [args[i] for i in places])
            return value.detach(), found[0] if isinstance(argnums, int) else found

        return run

    def logsumexp(self, x, axis):
        return self.module.logsumexp(x, axis)

    def log_softmax(self, x, axis):
        return self.module.log_softmax(x, axis)

    def placed(self, values, where, shape):
        out = self.module.zeros(shape, dtype=values.dtype)
        out[where] = values
        return out

    def scan(self, step, carry, xs):
        """Run a loop in Python."""
        several = isinstance(xs, tuple)
        outs = []
        for x in zip(*xs, strict=True) if several else xs:
            carry, out = step(carry, x)
            outs.append(out)
        return carry, self.module.stack(outs) if isinstance(outs[0], self.module.Tensor) else ()


LIBRARIES = {"fgrad": Fgrad, "jax": Jax, "torch": Torch}


def installed():
    """Return the libraries that are there, by name: fgrad's is the first."""
    return {name: make() for name, make in LIBRARIES.items() if find_spec(name)}


def flat(result):
    """Return the arrays of nested tuples and lists."""
    if isinstance(result, tuple | list):
        return [a for r in result for a in flat(r)]
    return [np.asarray(result)]
