"""Sparse Jacobians and Hessians equal dense ones, whatever the arguments are, and keep what they found."""

import pickle
import tracemalloc

import numpy as np
import pytest
from scipy import sparse as scipy_sparse
from tests.helpers import unchecked

import fgrad as fg
from fgrad import sparse
from fgrad.sparse import plans

RNG = np.random.default_rng(4)
X = RNG.uniform(-1, 1, 12)
MODES = ["auto", "forward", "reverse", "bidirectional"]


def chain(x):
    return np.sin(x[1:]) * x[:-1] ** 2


def chain_jacobian(x):
    n = x.size
    made = np.zeros((n - 1, n))
    i = np.arange(n - 1)
    made[i, i] = 2 * x[:-1] * np.sin(x[1:])
    made[i, i + 1] = np.cos(x[1:]) * x[:-1] ** 2
    return made


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def rosenbrock_hessian(x):
    n = x.size
    diagonal = np.zeros(n)
    diagonal[:-1] += 1200 * x[:-1] ** 2 - 400 * x[1:] + 2
    diagonal[1:] += 200
    beside = -400 * x[:-1]
    return np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
def test_jacobian_is_that_on_paper(mode, format):
    jac = sparse.jacobian(chain, mode=mode, format=format)
    found = jac(X)
    assert found.format == format
    np.testing.assert_allclose(found.toarray(), chain_jacobian(X), rtol=1e-14)
    np.testing.assert_allclose(jac(2 * X).toarray(), chain_jacobian(2 * X), rtol=1e-14)
    assert jac.colours <= 3
    value, found = sparse.value_and_jacobian(chain, mode=mode, format=format)(X)
    np.testing.assert_array_equal(value, chain(X))
    np.testing.assert_allclose(found.toarray(), chain_jacobian(X), rtol=1e-14)


def test_hessian_is_that_on_paper():
    hess = sparse.hessian(rosenbrock)
    np.testing.assert_allclose(hess(X).toarray(), rosenbrock_hessian(X), rtol=1e-13)
    assert hess.colours == 3
    value, found = sparse.value_and_hessian(rosenbrock)(X)
    np.testing.assert_allclose(value, rosenbrock(X))
    np.testing.assert_allclose(found.toarray(), rosenbrock_hessian(X), rtol=1e-13)


def test_results_belong_to_whoever_gets_them():
    jac = sparse.jacobian(chain)
    found = jac(X)
    found.data[:] = 0
    found.eliminate_zeros()
    np.testing.assert_allclose(jac(X).toarray(), chain_jacobian(X), rtol=1e-14)
    for format in ("csc", "coo"):
        jac = sparse.jacobian(chain, format=format)
        found = jac(X)
        found.data[:] = 0
        found.eliminate_zeros()
        np.testing.assert_allclose(jac(X).toarray(), chain_jacobian(X), rtol=1e-14)


def test_pytrees_and_several_arguments_are_put_in_a_row():
    def f(state, scale, *, places):
        u, v = state["u"], state["v"]
        return {"a": u[places] * scale, "b": (v.sum(axis=0), np.outer(u, u))}

    state = {"u": X[:3], "v": X[3:9].reshape(2, 3)}
    places = np.array([2, 0])
    found = sparse.jacobian(f, (0, 1))(state, 2.0, places=places)

    def flat(z):
        out = f({"u": z[:3], "v": z[3:9].reshape(2, 3)}, z[9], places=places)
        return np.concatenate([out["a"], out["b"][0], out["b"][1].ravel()])

    dense = fg.jacfwd(flat)(np.append(X[:9], 2.0))
    np.testing.assert_allclose(found.toarray(), dense, rtol=1e-13)
    np.testing.assert_allclose(
        sparse.jacobian(f, 0)(state, scale=2.0, places=places).toarray(), dense[:, :9], rtol=1e-13
    )


def test_integers_among_the_arguments_are_structure():
    jac = sparse.jacobian(lambda x, places: x[places] ** 2)
    for places in (np.array([0, 1]), np.array([4, 2]), np.array([0, 1])):
        expected = np.zeros((2, 12))
        expected[[0, 1], places] = 2 * X[places]
        np.testing.assert_allclose(jac(X, places).toarray(), expected)
    assert len(jac._plans) == 2


def test_what_the_function_reads_from_outside_is_noticed():
    places = np.array([0, 1])

    def f(x):
        return x[places] ** 2

    jac = sparse.jacobian(f)
    assert set(jac(X).indices) == {0, 1}
    places = np.array([5, 3])
    found = jac(X)
    assert set(found.indices) == {3, 5}
    np.testing.assert_allclose(found.data, 2 * X[[5, 3]])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_dtypes(dtype):
    found = sparse.jacobian(chain)(X.astype(dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(found.toarray(), chain_jacobian(X), rtol=1e-5)


def test_derivatives_of_the_entries():
    jac = sparse.jacobian(chain)
    weights = RNG.standard_normal(22)
    slope = fg.grad(lambda x: jac.values(x) @ weights)(X)
    dense = lambda x: chain_jacobian(x)[jac.pattern(x).nonzero()] @ weights
    numeric = [(dense(X + e) - dense(X - e)) / 2e-6 for e in 1e-6 * np.eye(12)]
    np.testing.assert_allclose(slope, numeric, rtol=1e-6, atol=1e-8)
    through = fg.grad(lambda x: np.sum((jac(x) @ x) ** 2))(X)
    numeric = [
        (np.sum((chain_jacobian(X + e) @ (X + e)) ** 2) - np.sum((chain_jacobian(X - e) @ (X - e)) ** 2))
        / 2e-6
        for e in 1e-6 * np.eye(12)
    ]
    np.testing.assert_allclose(through, numeric, rtol=1e-6, atol=1e-7)


def test_inside_of_other_transformations():
    jac = sparse.jacobian(chain)
    np.testing.assert_allclose(fg.jit(jac)(X).toscipy().toarray(), chain_jacobian(X), rtol=1e-14)
    rows = np.stack([X, 2 * X])
    found = fg.vmap(jac.values)(rows)
    for x, data in zip(rows, found, strict=True):
        np.testing.assert_allclose(data, chain_jacobian(x)[jac.pattern(x).nonzero()], rtol=1e-14)
    tensor = jac(fg.tensor(X))
    assert isinstance(tensor.data, fg.Tensor)
    np.testing.assert_allclose(tensor.toscipy().toarray(), chain_jacobian(X), rtol=1e-14)


@unchecked("as_njit is refused")
def test_compiled_code_calls_it():
    numba = pytest.importorskip("numba")
    jac = sparse.jacobian(chain)
    compiled = fg.jit(jac.values).as_njit(X)

    @numba.njit
    def newton(x):
        return compiled(x).sum()

    np.testing.assert_allclose(newton(X), chain_jacobian(X).sum(), rtol=1e-13)
    x = RNG.uniform(0.5, 1.5, 36)
    by_trees = fg.jit(sparse.hessian(grid_energy, recovery="substitution").values).as_njit(x)
    dense = fg.hessian(grid_energy)(x)
    np.testing.assert_allclose(by_trees(x), dense[dense != 0], rtol=1e-9, atol=1e-12)


def test_patterns_of_users():
    true = chain_jacobian(X) != 0
    for pattern in (true, scipy_sparse.coo_array(true), np.ones((11, 12))):
        np.testing.assert_allclose(
            sparse.jacobian(chain, pattern=pattern, check=True)(X).toarray(), chain_jacobian(X), rtol=1e-14
        )
    wrong = true.copy()
    wrong[4, 5] = False
    for mode in MODES:
        with pytest.raises(ValueError, match=r"lacks the entry \(4, 5\)"):
            sparse.jacobian(chain, pattern=wrong, mode=mode, check=True)(X)
    with pytest.raises(ValueError, match=r"shape \(12, 12\), but the matrix has shape \(11, 12\)"):
        sparse.jacobian(chain, pattern=np.eye(12))(X)
    lower = np.tril(rosenbrock_hessian(X)) != 0
    np.testing.assert_allclose(
        sparse.hessian(rosenbrock, pattern=lower, check=True)(X).toarray(), rosenbrock_hessian(X), rtol=1e-13
    )
    lower[3, 2] = False
    with pytest.raises(ValueError, match=r"lacks the entry \(2, 3\)"):
        sparse.hessian(rosenbrock, pattern=lower, check=True)(X)
    with pytest.raises(TypeError, match="check=True looks at values"):
        fg.jit(sparse.jacobian(chain, check=True))(X)


def test_colourings_of_users():
    jac = sparse.jacobian(chain, colouring=np.arange(12) % 3)
    np.testing.assert_allclose(jac(X).toarray(), chain_jacobian(X), rtol=1e-14)
    assert jac.colours == 3
    both = sparse.Colouring(np.arange(12) % 2, None)
    np.testing.assert_allclose(
        sparse.jacobian(chain, colouring=both)(X).toarray(), chain_jacobian(X), rtol=1e-14
    )
    by_rows = sparse.jacobian(chain, mode="reverse", colouring=np.arange(11) % 2)
    np.testing.assert_allclose(by_rows(X).toarray(), chain_jacobian(X), rtol=1e-14)
    hess = sparse.hessian(rosenbrock, colouring=np.arange(12) % 3)
    np.testing.assert_allclose(hess(X).toarray(), rosenbrock_hessian(X), rtol=1e-13)
    with pytest.raises(ValueError, match=r"does not give the entry \(0, 0\)"):
        sparse.jacobian(chain, colouring=np.zeros(12, int))(X)
    with pytest.raises(ValueError, match="an array of 12 integers"):
        sparse.jacobian(chain, colouring=np.zeros(3, int))(X)
    with pytest.raises(TypeError, match=r"is a fgrad\.sparse\.Colouring"):
        sparse.jacobian(chain, mode="bidirectional", colouring=np.zeros(12, int))(X)


def test_hessians_by_substitution_take_fewer_products():
    hess = sparse.hessian(rosenbrock, recovery="substitution", format="csc")
    np.testing.assert_allclose(hess(X).toarray(), rosenbrock_hessian(X), rtol=1e-12)
    assert hess.colours == 2
    by_stars = sparse.hessian(rosenbrock, recovery="direct", format="csc")
    np.testing.assert_allclose(by_stars(X).toarray(), rosenbrock_hessian(X), rtol=1e-13)
    assert by_stars.colours == 3
    given = sparse.hessian(rosenbrock, colouring=np.arange(12) % 2)
    np.testing.assert_allclose(given(X).toarray(), rosenbrock_hessian(X), rtol=1e-12)
    with pytest.raises(ValueError, match=r"does not give the entry \(1, 2\)"):
        sparse.hessian(rosenbrock, colouring=np.arange(12) % 2, recovery="direct")(X)


def grid_energy(x):
    u = x.reshape(6, 6)
    return np.sum(np.sin(u[1:] * u[:-1])) + np.sum(np.cos(u[:, 1:] * u[:, :-1])) + np.sum(u**4)


def test_substitution_is_a_function_like_any_other():
    x = RNG.uniform(0.5, 1.5, 36)
    hess = sparse.hessian(grid_energy, recovery="substitution")
    dense = fg.hessian(grid_energy)
    np.testing.assert_allclose(hess(x).toarray(), dense(x), rtol=1e-10, atol=1e-12)
    assert hess.colours < sparse_colours(grid_energy, x, "direct")
    np.testing.assert_allclose(fg.jit(hess)(x).toscipy().toarray(), dense(x), rtol=1e-10, atol=1e-12)
    rows = np.stack([x, 2 * x])
    for data, row in zip(fg.vmap(hess.values)(rows), rows, strict=True):
        np.testing.assert_allclose(data, hess.values(row), rtol=1e-12)
    total = lambda x: np.sum(hess.values(x) ** 2)
    slope = fg.grad(total)(x)
    numeric = [(total(x + e) - total(x - e)) / 2e-6 for e in 1e-6 * np.eye(36)]
    np.testing.assert_allclose(slope, numeric, rtol=1e-6, atol=1e-7)


def sparse_colours(f, x, recovery):
    hess = sparse.hessian(f, recovery=recovery)
    hess(x)
    return hess.colours


@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
@pytest.mark.parametrize("mode", MODES)
def test_entries_are_written_into_arrays(format, mode):
    jac = sparse.jacobian(chain, mode=mode, format=format)
    matrix = jac(X)
    data = matrix.data
    jac.fill(data, 2 * X)
    assert matrix.data is data
    np.testing.assert_allclose(matrix.toarray(), chain_jacobian(2 * X), rtol=1e-14)
    own = np.full(24, 7.0)
    jac.fill(own[1:-1], X)
    np.testing.assert_allclose(own[1:-1], jac(X).data, rtol=1e-14)
    assert own[0] == own[-1] == 7
    narrow = np.empty(44, np.float32)
    jac.fill(narrow[::2], X)
    np.testing.assert_allclose(narrow[::2], jac(X).data, rtol=1e-6)
    jac.fill(own[1:-1], fg.tensor(3 * X))
    np.testing.assert_allclose(own[1:-1], jac(3 * X).data, rtol=1e-14)


@unchecked("calls are made from Python, which copies")
@pytest.mark.parametrize("derivative", [sparse.jacobian(chain), sparse.hessian(rosenbrock)])
def test_writing_entries_allocates_nothing(derivative):
    x = RNG.uniform(-1, 1, 20_000)
    matrix = derivative(x)
    derivative.fill(matrix.data, x)
    tracemalloc.start()
    derivative.fill(matrix.data, 2 * x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * x.nbytes  # 2 * x is that of the test
    np.testing.assert_array_equal(matrix.data, derivative(2 * x).data)


def test_entries_are_written_where_arguments_lie():
    jac = sparse.jacobian(lambda x: x**3)
    x = X.copy()
    jac.fill(x, x)
    np.testing.assert_allclose(x, 3 * X**2, rtol=1e-14)


@pytest.mark.parametrize("filled", [False, True])
def test_arrays_and_tensors_that_a_function_reads_may_change(filled):
    scale = np.ones(11)
    weight = fg.tensor(np.append(0.0, np.ones(10)))
    jac = sparse.jacobian(lambda x: weight * scale * x[1:] * x[:-1])

    def found():
        matrix = jac(X)
        if filled:
            jac.fill(matrix.data, X)
        return matrix.toarray()

    first = np.eye(11, 12, 1) * X[:-1, None] + np.eye(11, 12) * X[1:, None]
    np.testing.assert_allclose(found()[1:], first[1:], rtol=1e-14)
    scale[:] = 3.0
    np.testing.assert_allclose(found()[1:], 3 * first[1:], rtol=1e-14)
    weight[...] = 2.0
    np.testing.assert_allclose(found(), 6 * first, rtol=1e-14)
    with fg.GradManager().attach(weight) as gm:
        gm.backward(jac.values(X).sum())
    np.testing.assert_allclose(weight.grad, 3 * (X[1:] + X[:-1]), rtol=1e-13)


def test_memory_grows_with_the_entries():
    def f(x):
        u = np.pad(x.reshape(-1, 50), 1)
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return (around - np.exp(u[1:-1, 1:-1])).ravel()

    peaks = []
    for n in (2_500, 2_500, 5_000, 10_000):
        tracemalloc.start()
        found = sparse.jacobian(f)(np.ones(n))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert found.nnz < 5 * n
    small, middle, large = peaks[1:]  # the first one imports and compiles
    assert large - middle < 2.5 * (middle - small)
    assert large < 3000 * 10_000  # of 100 million that a dense matrix has in bytes by 8


def test_an_arrow_takes_few_products():
    def f(x):
        return np.concatenate([np.sum(x**2).reshape(1), x[1:] ** 2 * x[0]])

    x = RNG.uniform(1, 2, 60)
    jac = sparse.jacobian(f)
    np.testing.assert_allclose(jac(x).toarray(), fg.jacrev(f)(x), rtol=1e-14)
    assert jac.colours <= 3
    assert jac.colouring(x).forward
    assert jac.colouring(x).reverse
    hess = sparse.hessian(lambda x: x[0] * np.sum(np.sin(x[1:])))
    np.testing.assert_allclose(
        hess(x).toarray(), fg.hessian(lambda x: x[0] * np.sum(np.sin(x[1:])))(x), rtol=1e-14, atol=1e-16
    )
    assert hess.colours == 2


@pytest.mark.parametrize("limit", ["_SEEDS", "_READ"])
def test_large_seeds_are_made_from_colours(monkeypatch, limit):
    monkeypatch.setattr(plans, limit, 0)
    monkeypatch.setattr(plans, "_GROWN", 0)
    monkeypatch.setattr(plans, "_LONG", 0)  # lanes have no seeds
    for mode in MODES:
        jac = sparse.jacobian(chain, mode=mode)
        np.testing.assert_allclose(jac(X).toarray(), chain_jacobian(X), rtol=1e-14)
        assert jac._last.colours
        np.testing.assert_allclose(fg.jit(jac)(X).toscipy().toarray(), chain_jacobian(X), rtol=1e-14)
    np.testing.assert_allclose(sparse.hessian(rosenbrock)(X).toarray(), rosenbrock_hessian(X), rtol=1e-13)


def test_zero_jacobians_and_arguments_without_elements():
    assert sparse.jacobian(lambda x: np.floor(x))(X).nnz == 0
    assert sparse.jacobian(lambda x: np.floor(x), mode="reverse")(X).shape == (12, 12)
    assert sparse.hessian(lambda x: np.sum(x))(X).nnz == 0
    assert sparse.jacobian(lambda x: x)(np.zeros(0)).shape == (0, 0)


def test_it_pickles_and_binds():
    np.testing.assert_allclose(
        pickle.loads(pickle.dumps(sparse.jacobian(chain)))(X).toarray(), chain_jacobian(X), rtol=1e-14
    )

    class Model:
        scale = 2.0

        def residual(self, x):
            return self.scale * chain(x)

    np.testing.assert_allclose(
        sparse.jacobian(Model().residual)(X).toarray(), 2 * chain_jacobian(X), rtol=1e-14
    )


def undecided(x):
    return x if x[0] > 0 else -x


def drawn(x):
    return x * np.random.standard_normal(12)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: sparse.jacobian(lambda x: x > 0)(X), TypeError, "returns bool, but only real floats"),
        (lambda: sparse.jacobian(lambda x: x + 1j)(X), TypeError, "returns complex128"),
        (lambda: sparse.jacobian(lambda x: None)(X), TypeError, "returns no array"),
        (lambda: sparse.jacobian(lambda: 1.0)(), TypeError, "no argument to differentiate"),
        (lambda: sparse.jacobian(chain)(np.arange(3)), TypeError, "x is of dtype int64"),
        (lambda: sparse.jacobian(chain)(X + 1j), TypeError, "x is of dtype complex128"),
        (lambda: sparse.jacobian(chain, 1)(X), ValueError, "argnums=1"),
        (lambda: sparse.jacobian(lambda x, s: x)(X, "linear"), TypeError, "'linear' of type str"),
        (lambda: sparse.jacobian(chain, mode="both"), ValueError, "mode must be"),
        (lambda: sparse.jacobian(chain, format="bsr"), ValueError, "format must be"),
        (lambda: sparse.jacobian(3), TypeError, "transforms a function"),
        (lambda: sparse.hessian(chain, recovery="trees"), ValueError, "recovery must be"),
        (lambda: sparse.jacobian(chain).fill(np.zeros(3), X), ValueError, r"22 floats, not float64\[3\]"),
        (lambda: sparse.jacobian(chain).fill([0.0], X), ValueError, r"22 floats, not \[0.0\]"),
        (lambda: fg.jit(lambda x: sparse.jacobian(chain).fill(np.zeros(22), x))(X), TypeError, "use values"),
        (lambda: sparse.jacobian(undecided)(X), Exception, r"sparse\.jacobian"),
        (lambda: sparse.pattern(undecided)(X), Exception, r"sparse\.pattern"),
        (lambda: sparse.hessian(undecided)(X), Exception, r"sparse\.hessian"),
        (lambda: sparse.jacobian(undecided, pattern=np.eye(12))(X), Exception, r"sparse\.jacobian"),
        (
            lambda: sparse.jacobian(drawn)(X),
            TypeError,
            r"sparse\.jacobian of drawn: the function takes random numbers",
        ),
        (lambda: sparse.hessian(chain)(X), TypeError, "has to return one real number"),
        (lambda: sparse.jacobian(chain).colours, AttributeError, "when it has been called"),
        (lambda: sparse.pattern(chain, order=3), ValueError, "order must be 1"),
        (lambda: fg.jit(sparse.pattern(chain, local=True))(X), TypeError, "a pattern at certain values"),
    ],
)
def test_what_makes_no_sense_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
