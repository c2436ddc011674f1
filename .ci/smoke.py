"""What an installed fgrad must do, wherever it is installed: python .ci/smoke.py."""

import numpy as np

import fgrad as fg
import fgrad.numpy as fnp


def energy(x):
    return np.sum(np.sin(x) ** 2)


x = np.array([0.0, 1.0, 2.0])
slope = np.sin(2 * x)
np.testing.assert_allclose(fg.grad(energy)(x), slope)
np.testing.assert_allclose(fg.jit(fg.grad(energy))(x), slope, rtol=1e-14, atol=1e-15)
np.testing.assert_allclose(fg.vmap(fg.grad(energy))(np.stack([x, -x])), [slope, -slope])
np.testing.assert_allclose(fg.hessian(energy)(x), np.diag(2 * np.cos(2 * x)), atol=1e-15)
np.testing.assert_allclose(fg.jvp(np.sin, (x,), (np.ones(3),))[1], np.cos(x))

w = fg.tensor([1.0, 2.0])
with fg.GradManager().attach({"w": w}) as gm:
    y = fnp.zeros(2)
    y[0] = w[0] * w[1]
    y += w**3
    gm.backward(y.sum())
np.testing.assert_allclose(w.grad.numpy(), [2.0 + 3.0, 1.0 + 12.0])

large = np.linspace(-3.0, 3.0, 200_000, dtype=np.float32)  # as large as compiled loops want it
np.testing.assert_allclose(fg.grad(lambda x: fg.nn.gelu(x).sum())(large)[-1], 1.0, atol=0.02)
