"""Optimizers that hold tensors: `step` writes to them what the gradient transformations say."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fgrad import tree
from fgrad.docstrings import completes
from fgrad.optim import algorithms
from fgrad.optim.transformations import (
    GradientTransformation,
    add_decayed_weights,
    apply_updates,
    chain,
    clip_by_global_norm,
)
from fgrad.transforms.jit import jit
from fgrad.transforms.manager import GradManager

if TYPE_CHECKING:
    from typing_extensions import Self


class Optimizer:
    """Tensors, and what a gradient transformation keeps of each between steps.

    `step` reads `.grad` of the tensors, and writes to them: in one compiled program. A tensor without a
    gradient stays as it is, with its state.

    Args:
        tensors: a `GradManager`, whose attached tensors are meant, or a pytree of Tensors.
        make: (learning rate) -> gradient transformation.
        lr: a number, or a schedule: (number of steps done) -> number. It may be set at any time.
        max_norm: the norm to which all gradients together are clipped, or None.

    Raises:
        TypeError: a leaf is no floating-point Tensor.
        ValueError: there are no tensors, or `max_norm` is not positive.

    Attributes:
        lr: the learning rate or schedule.
        steps: how many steps were taken.

    Example:
        >>> w = fg.tensor([1.0, 2.0])
        >>> opt = Optimizer(w, lambda rate: fg.optim.sgd(rate, momentum=0.5), lr=0.1)
        >>> w.grad = fg.tensor([1.0, 1.0])
        >>> _ = opt.step().step()
        >>> w
        Tensor([0.75, 1.75])
    """

    lr: Any
    steps: int

    def __init__(
        self,
        tensors: Any,
        make: Callable[[Any], GradientTransformation],
        lr: Any,
        *,
        max_norm: float | None = None,
    ) -> None:
        manager = tensors if isinstance(tensors, GradManager) else GradManager().attach(tensors)
        found = manager.attached_tensors()
        if not found:
            raise ValueError(
                "an optimizer needs tensors: attach them to the GradManager before, or give a pytree of them"
            )
        make(0.0)  # refuses what is no setting
        clip = None if max_norm is None else clip_by_global_norm(max_norm)
        self.lr, self.steps = lr, 0
        self._tensors = found
        self._init = make(0.0).init
        self._states: list[Any] = [None] * len(found)

        def advance(rate: Any, values: list[Any], grads: list[Any], states: list[Any]) -> Any:
            if clip is not None:
                grads, _ = clip.update(grads, ())
            update = make(rate).update
            done = [update(g, s, v) for v, g, s in zip(values, grads, states, strict=True)]
            return apply_updates(values, [u for u, _ in done]), [s for _, s in done]

        self._advance = jit(advance)

    def step(self) -> Self:
        """Take one step: write to every tensor that has a gradient.

        Raises:
            ValueError: no tensor has a gradient.
        """
        chosen = [i for i, t in enumerate(self._tensors) if t.grad is not None]
        if not chosen:
            raise ValueError("no tensor has a gradient: call gm.backward(loss) before opt.step()")
        values = [self._tensors[i] for i in chosen]
        for i in chosen:
            if self._states[i] is None:
                self._states[i] = self._init(self._tensors[i])
        states = [self._states[i] for i in chosen]
        rate = self.lr(self.steps) if callable(self.lr) else self.lr
        new, after = self._advance(float(rate), values, [v.grad for v in values], states)
        for i, t, v, s in zip(chosen, values, new, after, strict=True):
            t[...] = v
            self._states[i] = s
        self.steps += 1
        return self

    def clear_grad(self) -> Self:
        """Forget the gradients of all tensors, which `backward` adds to."""
        for t in self._tensors:
            t.grad = None
        return self

    def state_dict(self) -> dict[str, Any]:
        """Return the number of steps and the states, None for tensors that had none, as a pytree."""
        return {"steps": self.steps, "states": list(self._states)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` returned.

        Raises:
            ValueError: it is of other tensors, by their number or shapes.
        """
        if len(state["states"]) != len(self._tensors):
            raise ValueError(
                f"the state is of {len(state['states'])} tensors, and this optimizer has {len(self._tensors)}"
            )
        for i, (t, s) in enumerate(zip(self._tensors, state["states"], strict=True)):
            if s is not None and _shapes(s) != _shapes(self._init(t)):
                raise ValueError(
                    f"the state of tensor {i}, of shape {t.shape}, is of another one: {_shapes(s)}"
                )
        self.steps, self._states = int(state["steps"]), list(state["states"])


def _shapes(state: Any) -> list[Any]:
    return [getattr(leaf, "shape", ()) for leaf in tree.leaves(state)]


_holder = completes(
    {
        "tensors": "a `GradManager` or a pytree of Tensors.",
        "lr": "learning rate or schedule.",
        "max_norm": "the norm to which all gradients together are clipped, or None.",
    },
    Raises="""TypeError: a leaf is no floating-point Tensor.
    ValueError: there are no tensors, or a setting is out of its range.""",
)


@_holder
class SGD(Optimizer):
    """Stochastic gradient descent of tensors: `fgrad.optim.sgd`, and a penalty on squares of weights.

    Args:
        momentum: how much of the last trace of gradients stays.
        nesterov: as in `sgd`.
        weight_decay: this multiple of the tensors is added to their gradients, as in PyTorch.

    Example:
        >>> import fgrad
        >>> w = fgrad.tensor([1.0, 2.0])
        >>> gm = fgrad.GradManager().attach(w)
        >>> opt = SGD(gm, lr=0.1)
        >>> with gm:
        ...     gm.backward((w**2).sum())
        >>> _ = opt.step().clear_grad()
        >>> w
        Tensor([0.8, 1.6])
    """

    def __init__(
        self,
        tensors: Any,
        lr: Any,
        momentum: float = 0.0,
        *,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        max_norm: float | None = None,
    ) -> None:
        def make(rate: Any) -> GradientTransformation:
            made = algorithms.sgd(rate, momentum, nesterov=nesterov)
            return chain(add_decayed_weights(weight_decay), made) if weight_decay else made

        super().__init__(tensors, make, lr, max_norm=max_norm)


@_holder
class Adam(Optimizer):
    """Adam of tensors: `fgrad.optim.adam`.

    Args:
        betas: decays of the mean and of the mean of squares.
        eps: added to the root.

    Example:
        >>> w = fg.tensor([1.0, 2.0])
        >>> gm = fg.GradManager().attach(w)
        >>> opt = Adam(gm, lr=0.1)
        >>> with gm:
        ...     gm.backward((w**2).sum())
        >>> _ = opt.step().clear_grad()
        >>> w
        Tensor([0.9, 1.9])
    """

    def __init__(
        self,
        tensors: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        *,
        max_norm: float | None = None,
    ) -> None:
        super().__init__(tensors, lambda rate: algorithms.adam(rate, *betas, eps), lr, max_norm=max_norm)


@_holder
class AdamW(Optimizer):
    """Adam with decoupled weight decay of tensors: `fgrad.optim.adamw`, with PyTorch's defaults.

    Args:
        betas: decays of the mean and of the mean of squares.
        eps: added to the root.
        weight_decay: which multiple of the tensors, times the learning rate, is subtracted.

    Example:
        >>> w = fg.tensor([1.0, 2.0])
        >>> gm = fg.GradManager().attach(w)
        >>> opt = AdamW(gm, lr=0.1, weight_decay=0.5)
        >>> with gm:
        ...     gm.backward((w**2).sum())
        >>> _ = opt.step().clear_grad()
        >>> w
        Tensor([0.85, 1.8 ])
    """

    def __init__(
        self,
        tensors: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        *,
        max_norm: float | None = None,
    ) -> None:
        super().__init__(
            tensors, lambda rate: algorithms.adamw(rate, *betas, eps, weight_decay), lr, max_norm=max_norm
        )


@_holder
class RMSProp(Optimizer):
    """RMSProp of tensors: `fgrad.optim.rmsprop`, with PyTorch's defaults.

    Args:
        alpha: decay of the mean of squares.
        eps: added to its root.
        centered: whether to divide by the standard deviation instead.
        momentum: how much of the last trace of updates stays.

    Example:
        >>> w = fg.tensor([1.0, 2.0])
        >>> gm = fg.GradManager().attach(w)
        >>> opt = RMSProp(gm, lr=0.05)
        >>> with gm:
        ...     gm.backward((w**2).sum())
        >>> _ = opt.step().clear_grad()
        >>> w
        Tensor([0.50, 1.50])
    """

    def __init__(
        self,
        tensors: Any,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        *,
        centered: bool = False,
        momentum: float = 0.0,
        max_norm: float | None = None,
    ) -> None:
        def make(rate: Any) -> GradientTransformation:
            return algorithms.rmsprop(
                rate, alpha, eps, eps_in_sqrt=False, centered=centered, momentum=momentum
            )

        super().__init__(tensors, make, lr, max_norm=max_norm)


@_holder
class Adagrad(Optimizer):
    """AdaGrad of tensors: `fgrad.optim.adagrad`, with PyTorch's defaults.

    Args:
        initial_accumulator_value: where the sum of squares begins.
        eps: added to its root.

    Example:
        >>> w = fg.tensor([1.0, 2.0])
        >>> gm = fg.GradManager().attach(w)
        >>> opt = Adagrad(gm, lr=0.1)
        >>> with gm:
        ...     gm.backward((w**2).sum())
        >>> _ = opt.step().clear_grad()
        >>> w
        Tensor([0.9, 1.9])
    """

    def __init__(
        self,
        tensors: Any,
        lr: Any = 1e-2,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        max_norm: float | None = None,
    ) -> None:
        def make(rate: Any) -> GradientTransformation:
            return algorithms.adagrad(rate, initial_accumulator_value, eps, eps_in_sqrt=False)

        super().__init__(tensors, make, lr, max_norm=max_norm)


@_holder
class Adamax(Optimizer):
    """Adamax of tensors: `fgrad.optim.adamax`.

    Args:
        betas: decays of the mean and of the greatest absolute gradient.
        eps: added to absolute gradients.

    Example:
        >>> w = fg.tensor([1.0, 2.0])
        >>> gm = fg.GradManager().attach(w)
        >>> opt = Adamax(gm, lr=0.1)
        >>> with gm:
        ...     gm.backward((w**2).sum())
        >>> _ = opt.step().clear_grad()
        >>> w
        Tensor([0.9, 1.9])
    """

    def __init__(
        self,
        tensors: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        *,
        max_norm: float | None = None,
    ) -> None:
        super().__init__(tensors, lambda rate: algorithms.adamax(rate, *betas, eps), lr, max_norm=max_norm)


@_holder
class Lion(Optimizer):
    """Lion of tensors: `fgrad.optim.lion`.

    Args:
        betas: how much the mean counts beside the gradient, and its decay.
        weight_decay: as in `AdamW`.

    Example:
        >>> w = fg.tensor([1.0, 2.0])
        >>> gm = fg.GradManager().attach(w)
        >>> opt = Lion(gm, lr=0.1)
        >>> with gm:
        ...     gm.backward((w**2).sum())
        >>> _ = opt.step().clear_grad()
        >>> w
        Tensor([0.9, 1.9])
    """

    def __init__(
        self,
        tensors: Any,
        lr: Any = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        max_norm: float | None = None,
    ) -> None:
        super().__init__(
            tensors, lambda rate: algorithms.lion(rate, *betas, weight_decay), lr, max_norm=max_norm
        )
