"""What all threads share is complete before any of them sees it, and there once."""

import time

from tests.helpers import together

from fgrad.core.primitive import PRIMITIVES, Primitive
from fgrad.expr import node


class Watched(dict):
    """A table that looks at what is put in it."""

    def __setitem__(self, key, vjp):
        assert (vjp.pattern, vjp.primitive) == (key, "multiply")
        assert hasattr(vjp, "linear")
        super().__setitem__(key, vjp)

    def setdefault(self, key, vjp):
        if key not in self:
            self[key] = vjp
        return self[key]


def test_a_vjp_rule_is_complete_when_other_threads_see_it():
    given = PRIMITIVES["multiply"]
    primitive = Primitive("multiply", run=given.run, vjp=given._make_vjp)
    primitive._vjps = Watched()
    assert primitive.vjp((True, False)).pattern == (True, False)
    assert list(primitive._vjps) == [(True, False)]


def test_threads_that_need_a_vjp_rule_together_get_the_same():
    given = PRIMITIVES["multiply"]

    def slow(pattern):
        made = given._make_vjp(pattern)
        time.sleep(0.01)
        return made

    primitive = Primitive("multiply", run=given.run, vjp=slow)
    assert len({id(p) for p in together(lambda: primitive.vjp((True, True)))}) == 1


def test_equal_expressions_of_several_threads_are_identical(monkeypatch):
    class Slow(node.Expr):
        __slots__ = ()

        def __init__(self, *args):
            time.sleep(0.01)
            super().__init__(*args)

    monkeypatch.setattr(node, "Expr", Slow)
    assert len({id(e) for e in together(lambda: node.var("one that nobody has named so"))}) == 1
