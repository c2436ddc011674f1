"""Jaxprs, primitives and callbacks of JAX's programs, compared with formulas."""

import sys

import numpy as np
import pytest

from fgrad.compat.jax import installed

# the library itself may be installed beside; another test may have loaded it
if "jax" in sys.modules:
    pytest.skip("JAX itself is loaded", allow_module_level=True)
with installed():
    import jax
    import jax.experimental
    import jax.extend.core
    from jax import api_util, lax
    from jax import numpy as jnp
    from jax.extend import linear_util
    from jax.interpreters import ad, batching, mlir, partial_eval

X = np.array([0.5, -1.0, 2.0], np.float32)
core = jax.extend.core


def close(x, y):
    np.testing.assert_allclose(np.asarray(x), y, rtol=1e-5, atol=1e-6)


# ---- jaxprs


def test_jaxprs_of_flat_functions():
    def f(x, *, scale):
        return {"out": jnp.sin(x) * scale, "x": x}

    leaves, structure = jax.tree.flatten(((X,), {"scale": 2.0}))
    flat, out = api_util.flatten_fun(
        linear_util.wrap_init(f, debug_info=api_util.debug_info("f", f, (), {})), structure
    )
    avals = [api_util.shaped_abstractify(x) for x in leaves]
    jaxpr, found, consts = partial_eval.trace_to_jaxpr_dynamic(
        linear_util.wrap_init(flat.call_wrapped, {}), avals
    )
    assert [str(e.primitive) for e in jaxpr.eqns] == ["sin", "mul"]
    assert [a.shape for a in found] == [(3,), (3,)]
    outs = jax.tree.unflatten(out(), core.eval_jaxpr(jaxpr, consts, *leaves))
    close(outs["out"], 2 * np.sin(X))
    assert linear_util.wrap_init(f, {"scale": 1.0}).call_wrapped(X)["x"] is X


@pytest.mark.parametrize("compiled", [False, True])
def test_functions_are_evaluated_in_part(compiled):
    def f(known, unknown):
        return {"known": jnp.sin(known), "both": known * unknown, "unknown": unknown + 1, "number": 2}

    def partly(x):
        _, structure = jax.tree.flatten((x, X))
        flat, out = api_util.flatten_fun_nokwargs(linear_util.wrap_init(f), structure)
        pvals = [
            partial_eval.PartialVal.known(x),
            partial_eval.PartialVal.unknown(core.ShapedArray((3,), jnp.float32)),
        ]
        jaxpr, found, consts = partial_eval.trace_to_jaxpr_nounits(flat, pvals)
        values = jax.tree.unflatten(out(), [v if v.is_known() else v.pval for v in found])
        _both, unknown = core.eval_jaxpr(jaxpr, consts, jnp.asarray(X))
        return values["known"].const, values["number"].const, unknown, [
            (values[name].shape, values[name].dtype) for name in ("both", "unknown")
        ]  # fmt: skip

    *values, kinds = partly(jnp.float32(2))
    assert kinds == [((3,), np.float32)] * 2
    if compiled:
        values = jax.jit(lambda x: partly(x)[:3])(jnp.float32(2))
    for value, expected in zip(values, (np.sin(2), 2, X + 1), strict=True):
        close(value, expected)
    with pytest.raises(NotImplementedError, match="leaves what is known out"):
        partial_eval.trace_to_jaxpr_nounits(linear_util.wrap_init(f), [], instantiate=True)


def test_a_jaxpr_is_a_program_that_can_be_read():
    weight = jnp.ones(3)
    closed = jax.make_jaxpr(lambda x: (jnp.sin(x) * weight, x + 2.0))(X)
    assert [str(e.primitive) for e in closed.eqns] == ["sin", "mul", "add"]
    assert closed.eqns[0].primitive is lax.sin_p
    assert len(closed.jaxpr.constvars) == len(closed.consts) == 1
    assert closed.in_avals == [jax.core.ShapedArray((3,), jnp.float32)]
    literal = closed.eqns[2].invars[1]
    assert isinstance(literal, core.Literal)
    assert literal.val == 2
    assert closed.eqns[0].outvars[0] is closed.eqns[1].invars[0]
    assert str(closed) == (
        "{ lambda a:f32[3] ; b:f32[3]. let\n"
        "    c:f32[3] = sin b\n"
        "    d:f32[3] = mul c a\n"
        "    e:f32[3] = add b 2.0:f32[]\n"
        "  in (d, e) }"
    )


def test_evaluating_a_jaxpr_differentiates():
    closed = jax.make_jaxpr(lambda x: jnp.sum(jnp.sin(x) ** 2))(X)
    f = core.jaxpr_as_fun(closed)
    close(f(X)[0], np.sum(np.sin(X) ** 2))
    close(jax.grad(lambda x: f(x)[0])(X), np.sin(2 * X))
    close(jax.vmap(lambda x: f(x)[0])(np.stack([X, 2 * X])), [np.sum(np.sin(k * X) ** 2) for k in (1, 2)])
    (again,) = jax.make_jaxpr(f)(X).eqns[0].invars
    assert again.aval.shape == (3,)


def test_a_derivative_of_ones_own_stays_one_equation():
    @jax.custom_jvp
    def f(x):
        return jnp.sin(x)

    f.defjvp(lambda xs, ts: (f(xs[0]), 5 * ts[0]))
    closed = jax.make_jaxpr(lambda x: f(2 * x))(X)
    call = closed.eqns[1]
    assert str(call.primitive) == "custom_jvp_call"
    assert call.params["call_jaxpr"].eqns[0].primitive is lax.sin_p
    assert "call_jaxpr=" in str(closed)
    close(jax.grad(lambda x: jnp.sum(core.jaxpr_as_fun(closed)(x)[0]))(X), [10, 10, 10])

    @jax.custom_vjp
    def g(x):
        return jnp.exp(x)

    g.defvjp(lambda x: (g(x), x), lambda x, ct: (7 * ct,))
    closed = jax.make_jaxpr(g)(X)
    assert str(closed.eqns[0].primitive) == "custom_vjp_call"
    close(jax.grad(lambda x: jnp.sum(core.jaxpr_as_fun(closed)(x)[0]))(X), [7, 7, 7])


def test_shapes_static_arguments_and_structs():
    struct = jax.ShapeDtypeStruct((2,), jnp.float32)
    closed, shape = jax.make_jaxpr(lambda n, x: {"y": x[:n]}, static_argnums=0, return_shape=True)(1, struct)
    assert shape == {"y": jax.ShapeDtypeStruct((1,), jnp.float32)}
    assert closed.out_avals[0].shape == (1,)
    with pytest.raises(NotImplementedError, match="axis_env"):
        jax.make_jaxpr(jnp.sin, axis_env=[("i", 2)])


def test_closures_are_converted():
    def outer(w):
        converted, consts = jax.closure_convert(lambda x: jnp.sum(w * x), X)
        assert len(consts) == 1
        return converted(X, *(3 * c for c in consts))

    close(jax.grad(outer)(X), 3 * X)
    (ct,) = jax.linear_transpose(lambda x: 2 * x, jax.ShapeDtypeStruct((3,), jnp.float32))(X)
    close(ct, 2 * X)


# ---- primitives

cube_p = core.Primitive("cube")
cube_p.def_impl(lambda x, *, scale: scale * x**3)
cube_p.def_abstract_eval(lambda x, *, scale: jax.core.ShapedArray(x.shape, x.dtype))
batching.primitive_batchers[cube_p] = lambda xs, axes, **params: (cube_p.bind(*xs, **params), axes[0])
mlir.register_lowering(cube_p, mlir.lower_fun(cube_p.impl, multiple_results=False))

turn_p = core.Primitive("turn")  # linear, of two results
turn_p.multiple_results = True
turn_p.def_impl(lambda x, y: [y, -x])
turn_p.def_abstract_eval(lambda x, y: [x, y])


def cube_jvp(primals, tangents, *, scale):
    (x,), (t,) = primals, tangents
    out = cube_p.bind(x, scale=scale)
    if type(t) is ad.Zero:
        return out, ad.Zero(out.aval)
    return out, 3 * scale * x**2 * t


def turn_jvp(primals, tangents):
    outs = turn_p.bind(*primals)
    if any(type(t) is ad.Zero for t in tangents):
        tangents = [ad.instantiate_zeros(t) for t in tangents]
    return outs, turn_p.bind(*tangents)


def turn_transpose(cts, x, y):
    u, v = map(ad.instantiate_zeros, cts)
    return [-v if ad.is_undefined_primal(x) else None, u if ad.is_undefined_primal(y) else None]


ad.primitive_jvps[cube_p] = cube_jvp
ad.primitive_jvps[turn_p] = turn_jvp
ad.primitive_transposes[turn_p] = turn_transpose


def cube(x):
    return cube_p.bind(x, scale=2.0)


@pytest.mark.parametrize("compiled", [False, True])
def test_primitives_by_their_rules(compiled):
    jit = jax.jit if compiled else lambda f: f
    close(jit(cube)(X), 2 * X**3)
    close(jit(jax.grad(lambda x: jnp.sum(cube(x))))(X), 6 * X**2)
    close(jit(jax.vmap(jax.grad(cube)))(X), 6 * X**2)
    close(jit(lambda x: jax.jvp(cube, (x,), (x,))[1])(X), 6 * X**3)
    close(jit(lambda x: turn_p.bind(x, 2 * x))(X), [2 * X, -X])
    close(jit(jax.grad(lambda x: jnp.sum(turn_p.bind(x, 2.0 * X)[1] * X)))(X), -X)


def test_primitives_in_jaxprs():
    closed = jax.make_jaxpr(lambda x: cube(x) + turn_p.bind(x, x)[0])(X)
    assert [e.primitive for e in closed.eqns] == [cube_p, turn_p, lax.add_p]
    assert closed.eqns[0].params == {"scale": 2.0}
    assert isinstance(closed.eqns[1].outvars[1], core.DropVar)
    close(jax.grad(lambda x: jnp.sum(core.jaxpr_as_fun(closed)(x)[0]))(X), 6 * X**2 + 1)


def test_missing_rules_are_named():
    bare = core.Primitive("bare")
    with pytest.raises(NotImplementedError, match="Evaluation rule for 'bare'"):
        bare.bind(1.0)
    bare.def_impl(lambda x: x)
    with pytest.raises(NotImplementedError, match="Differentiation rule for 'bare'"):
        jax.grad(bare.bind)(1.0)
    with pytest.raises(NotImplementedError, match="Batching rule for 'bare'"):
        jax.vmap(bare.bind)(X)
    with pytest.raises(NotImplementedError, match="Abstract evaluation rule for 'bare'"):
        jax.make_jaxpr(bare.bind)(X)
    with pytest.raises(NotImplementedError, match=r"no jax\.lax\.integer_pow_p"):
        lax.integer_pow_p.bind(X, y=2)


# ---- rules that see zeros


def test_symbolic_zeros():
    seen = []

    @jax.custom_vjp
    def f(x, y):
        return x * y, y

    def forward(x, y):
        seen.append((x.perturbed, y.perturbed))
        return f(x.value, y.value), (x.value, y.value)

    def backward(saved, cts):
        seen.append([isinstance(c, jax.custom_derivatives.SymbolicZero) for c in cts])
        return saved[1] * cts[0], None

    f.defvjp(forward, backward, symbolic_zeros=True)
    close(jax.grad(lambda x: jnp.sum(f(x, X)[0]))(X), X)
    assert seen == [(True, False), [False, True]]

    @jax.custom_jvp
    def g(x, n):
        return n * x

    def push(primals, tangents):
        seen.append(isinstance(tangents[1], jax.custom_derivatives.SymbolicZero))
        return g(*primals), primals[1] * tangents[0]

    g.defjvp(push, symbolic_zeros=True)
    close(jax.jvp(lambda x: g(x, 2.0), (X,), (X,))[1], 2 * X)
    assert seen[-1] is True


def test_integers_have_tangents_without_values():
    zero = np.zeros((), jax.dtypes.float0)
    _, tangent = jax.jvp(lambda n, x: (n + 1, x * n), (2, X), (zero, X))
    assert tangent[0].dtype == jax.dtypes.float0
    close(tangent[1], 2 * X)
    with pytest.raises(TypeError, match="float0"):
        jax.jvp(lambda n: n, (2,), (1,))
    _, push, aux = jax.linearize(lambda x: (x**2, x), X, has_aux=True)
    close(push(X), 2 * X**2)
    close(aux, X)
    close(jax.jacfwd(lambda x: (x**2, x), has_aux=True)(X)[0], np.diag(2 * X))


def test_rules_for_tangents_run_when_the_function_is_called():
    seen = []

    @jax.custom_jvp
    def f(x):
        return 2 * x

    def push(primals, tangents):
        seen.append("rule")
        return 3 * primals[0], 5 * tangents[0]

    f.defjvp(push)
    value, push_forward = jax.linearize(f, 1.0)
    assert seen == ["rule"]
    close(value, 3)
    close(push_forward(1.0), 5)
    close(jax.grad(lambda x: f(x) ** 2)(1.0), 2 * 3 * 5)
    close(f(1.0), 2)


def test_a_rule_may_call_its_function_on_tangents():
    @jax.custom_jvp
    def double(x):
        return 2 * x

    double.defjvp(lambda xs, ts: (double(xs[0]), double(ts[0])))
    for run in (jax.grad(double), jax.jit(jax.grad(double)), lambda x: jax.jvp(double, (x,), (1.0,))[1]):
        close(run(1.0), 2)
    close(jax.vmap(jax.grad(double))(X), [2, 2, 2])
    close(jax.grad(lambda x: jnp.sum(jax.vmap(double)(x)))(X), [2, 2, 2])


def test_complex_functions_and_integers():
    close(jax.grad(lambda z: z * z, holomorphic=True)(1 + 2j), 2 + 4j)
    close(jax.jacrev(lambda z: 1j * z * z, holomorphic=True)(jnp.array([1 + 2j])), [[2j * (1 + 2j)]])
    assert jax.grad(lambda n: 1.0 * n, allow_int=True)(2).dtype == jax.dtypes.float0
    with pytest.raises(NotImplementedError, match="allow_int"):
        jax.jacfwd(lambda n: n, allow_int=True)


def test_shapes_are_found_without_effects(capsys):
    def f(x):
        jax.debug.print("seen")
        return {"x": x, "struct": jax.ShapeDtypeStruct((2,), jnp.int32)}

    jax.jit(lambda x: jnp.zeros(jax.eval_shape(lambda: f(x))["struct"].shape) + x)(1.0)
    assert capsys.readouterr().out == ""


def test_effects_of_functions_with_rules_happen_once(capsys):
    @jax.custom_vjp
    def f(x):
        jax.debug.print("f")
        return x

    f.defvjp(lambda x: (f(x), None), lambda _, ct: (3 * ct,))
    for run in (jax.grad(f), jax.jit(jax.grad(f))):
        close(run(1.0), 3)
        assert capsys.readouterr().out == "f\n"


def test_draws_have_64_bits_where_these_are_enabled():
    key = jax.random.PRNGKey(0)
    with jax.enable_x64():
        assert jax.random.normal(key, (2,)).dtype == jax.random.uniform(key).dtype == np.float64
        assert jax.random.normal(key, (2,), np.float32).dtype == np.float32
        assert jax.random.randint(key, (2,), 0, 9).dtype == np.int64
        assert jax.random.PRNGKey(3).dtype == np.uint32
    assert jax.random.normal(key).dtype == np.float32


def test_least_squares():
    a, b = np.array([[1, 2], [3, 4], [5, 7]], np.float32), np.array([1, 2, 4], np.float32)
    np.testing.assert_allclose(np.asarray(jnp.linalg.lstsq(a, b)[0]), np.linalg.lstsq(a, b)[0], rtol=1e-3)
    np.testing.assert_allclose(float(jnp.linalg.cond(a)), np.linalg.cond(a), rtol=1e-3)


@pytest.mark.parametrize("dilation", [1, 2])
def test_negative_padding_of_convolutions_cuts_off(dilation):
    x, w = jnp.arange(7.0).reshape(1, 1, 7), jnp.array([[[1.0, 10.0]]])
    spread = np.zeros(7 * dilation - dilation + 1)
    spread[::dilation] = np.arange(7)
    inner = np.append(spread[2:-1], 0)[:-1]
    out = lax.conv_general_dilated(x, w, (1,), [(-2, -1)], lhs_dilation=(dilation,))
    close(out[0, 0], inner[:-1] + 10 * inner[1:])
    out = lax.conv_general_dilated(x, w, (1,), [(-2, 1)], lhs_dilation=(dilation,))
    inner = np.append(spread[2:], 0)
    close(out[0, 0], inner[:-1] + 10 * inner[1:])


def test_files_hold_arrays(tmp_path):
    jnp.save(tmp_path / "x.npy", jnp.asarray(X))
    close(jnp.load(tmp_path / "x.npy"), X)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_reflectors_and_diagonals(left, transpose):
    a = np.array([[1, 2], [3, 4], [5, 7]], np.float32)
    h, taus = jnp.linalg.qr(a, mode="raw")
    q = np.linalg.qr(a, mode="complete")[0]
    c = np.arange(9, dtype=np.float32).reshape(3, 3)
    q = q.T if transpose else q
    out = lax.linalg.ormqr(h.mT, taus, c, left=left, transpose=transpose)
    np.testing.assert_allclose(np.asarray(out), q @ c if left else c @ q, rtol=1e-4, atol=1e-4)
    x = lax.linalg.tridiagonal_solve(np.array([0, 1, 2.0]), 4 * np.ones(3), np.array([1, 3, 0.0]), c)
    close(np.array([[4, 1, 0], [1, 4, 3], [0, 2, 4]]) @ np.asarray(x), c)


# ---- callbacks


@pytest.mark.parametrize("compiled", [False, True])
def test_callbacks(compiled, capsys):
    jit = jax.jit if compiled else lambda f: f
    seen = []

    def note(x):
        seen.append(float(np.sum(x)))

    def f(x):
        jax.experimental.io_callback(note, None, x)
        jax.debug.callback(note, 2 * x)
        jax.debug.print("{} {y}", x[0], y=x[1])
        return jax.pure_callback(lambda v: {"y": np.asarray(v) * 2}, {"y": x}, x)["y"]

    close(jit(f)(X), 2 * X)
    assert seen == [1.5, 3.0]
    assert capsys.readouterr().out == "0.5 -1.0\n"
    twice = lambda x: jax.pure_callback(lambda v: np.asarray(v) * 2, x, x, vmap_method="sequential")
    close(jit(jax.vmap(twice))(X), 2 * X)
    with pytest.raises(TypeError, match="promised"):
        jax.pure_callback(lambda v: (v, v), X, X)


# ---- windows


@pytest.mark.parametrize("padding", ["VALID", "SAME", "SAME_LOWER", [(0, 0), (1, 0)]])
def test_windows(padding):
    x = np.arange(10.0, dtype=np.float32).reshape(2, 5)
    pads = {"VALID": (0, 0), "SAME": (0, 1), "SAME_LOWER": (1, 0)}
    low, high = pads[padding] if isinstance(padding, str) else padding[1]
    wide = np.pad(x, [(0, 0), (low, high)])
    out = lax.reduce_window(x, 0.0, lax.add, (1, 2), (1, 1), padding)
    close(out, wide[:, :-1] + wide[:, 1:])
    wide = np.pad(x, [(0, 0), (low, high)], constant_values=-np.inf)
    out = lax.reduce_window(x, -np.inf, lax.max, (1, 2), (1, 2), padding)
    close(out, np.maximum(wide[:, :-1], wide[:, 1:])[:, ::2])


def test_windows_over_what_is_spread_out_and_cut_off():
    x = np.arange(5.0, dtype=np.float32) + 1
    out = lax.reduce_window(x, 0.0, lax.add, (3,), (2,), [(1, 2)], base_dilation=(3,))
    close(out, [1, 2, 2, 3, 4, 4, 5])  # as JAX
    close(lax.reduce_window(x, 0.0, lax.add, (2,), (1,), [(-1, 1)]), [5, 7, 9, 5])


def test_convolution_in_either_order_of_axes():
    image, kernel = np.arange(10.0).reshape(1, 5, 2), np.arange(12.0).reshape(2, 2, 3)
    out = lax.conv_general_dilated(image, kernel, (1,), "VALID", dimension_numbers=("NWC", "WIO", "NWC"))
    expected = np.einsum("npwc,wco->npo", np.stack([image[:, :-1], image[:, 1:]], 2), kernel)
    close(out, expected)
    moved = lax.conv_general_dilated(image.transpose(0, 2, 1), kernel.transpose(2, 1, 0), (1,), [(0, 0)])
    close(moved, expected.transpose(0, 2, 1))
    halves = lax.conv_general_dilated(
        np.repeat(image, 2, 0), kernel[..., :2], (1,), "VALID", dimension_numbers=("NWC", "WIO", "NWC"),
        batch_group_count=2,
    )  # fmt: skip
    close(halves, expected[..., :2])


def test_traces_that_have_ended_are_not_the_innermost():
    kept = []

    def keep(x):
        kept.append(2 * x)
        return kept[0]

    def ask(x):
        y = jnp.sin(x)
        assert isinstance(y, ad.JVPTracer)
        assert y._trace.main is core.find_top_trace([x]).main
        return y

    jax.jvp(keep, (X,), (X,))
    assert not isinstance(kept[0], ad.JVPTracer)
    jax.jvp(ask, (kept[0],), (X,))


def test_rules_are_read_where_an_argument_is_a_constant():
    @jax.custom_vjp
    def scaled(x, scale):
        return x * scale

    scaled.defvjp(lambda x, scale: (x * scale, scale), lambda scale, ct: (ct * scale, None))
    closed = jax.make_jaxpr(lambda x: scaled(x, jnp.asarray(X)))(X)
    close(core.jaxpr_as_fun(closed)(jnp.ones(3))[0], X)


def test_forward_mode_through_compiled_functions_whose_pullback_is_refused():
    one_way = core.Primitive("one_way")
    one_way.def_impl(lambda x: x)
    one_way.def_abstract_eval(lambda x: x)

    def refuse(ct, x):
        raise RuntimeError("one way")

    ad.primitive_jvps[one_way] = lambda primals, tangents: (one_way.bind(*primals), one_way.bind(*tangents))
    ad.primitive_transposes[one_way] = refuse
    batching.primitive_batchers[one_way] = lambda args, dims: (one_way.bind(*args), dims[0])
    f = jax.jit(lambda x: one_way.bind(x) ** 2)
    close(jax.jvp(f, (jnp.asarray(X),), (jnp.ones(3),))[1], 2 * X)
    close(jax.linearize(f, jnp.asarray(X))[1](jnp.ones(3)), 2 * X)
    close(jax.jacfwd(f)(jnp.asarray(X)), np.diag(2 * X))
    with pytest.raises(RuntimeError, match="one way"):
        jax.grad(lambda x: f(x).sum())(jnp.asarray(X))


def test_compiled_programs_hold_what_primitives_are_lowered_to():
    seen = []

    def impl(x):
        seen.append(isinstance(x, jax.core.Tracer))
        return lax.while_loop(lambda y: y.sum() < 9, lambda y: 2 * y, x)

    grown_p = core.Primitive("grown")
    grown_p.def_impl(impl)
    grown_p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(grown_p, mlir.lower_fun(impl, multiple_results=False))
    f = jax.jit(lambda x: grown_p.bind(x) + 1)
    for _ in range(3):
        close(f(jnp.ones(3)), 5 * np.ones(3))
    assert seen == [True]  # Python does not run again
    close(grown_p.bind(jnp.ones(3)), 4 * np.ones(3))
