"""What is written in LLVM's language is what llvmlite's own builder writes, which is slow and obvious."""

import inspect
import itertools
import math
import re

import pytest
from llvmlite import binding, ir
from tests.helpers import optimised

from fgrad.kernels import assembly, compilation, instructions, scalars
from fgrad.kernels.vector import libm

BYTE, WORD, SINGLE, DOUBLE = ir.IntType(8), ir.IntType(64), ir.FloatType(), ir.DoubleType()
POINTER, FOUR = DOUBLE.as_pointer(), ir.VectorType(DOUBLE, 4)
FLAGS = [(), ("contract",), ("reassoc", "contract")]
GIVEN = {  # kinds of arguments, for intrinsics that take several
    "alone": ["float64*"],
    "part": ["float32*", "int64"],
    "address": ["complex64*"],
    "invoke": ["int64", "int64*", "float64"],
    **{name: ["float32", "float32"] for name in ("add_any", "multiply_any", "larger", "smaller")},
}
# instructions of x, y (integers), u, v (floats), p, q (pointers to floats and integers), w (a vector)
INSTRUCTIONS = {
    **{name: lambda b, g, name=name: getattr(b, name)(g["x"], g["y"]) for name in (
        *("add", "sub", "mul", "sdiv", "udiv", "urem", "and_", "or_", "xor", "shl", "ashr", "lshr"),
    )},
    **{f"{name} {k}": lambda b, g, name=name, f=f: getattr(b, name)(g["u"], g["v"], flags=f)
       for name in ("fadd", "fsub", "fmul", "fdiv", "frem") for k, f in enumerate(FLAGS)},
    **{f"{name} {sign}": lambda b, g, name=name, sign=sign: getattr(b, name)(sign, g["x"], g["y"])
       for name in ("icmp_signed", "icmp_unsigned") for sign in ("<", "<=", ">", ">=", "==", "!=")},
    **{f"{name} {sign}": lambda b, g, name=name, sign=sign: getattr(b, name)(sign, g["u"], g["v"])
       for name in ("fcmp_ordered", "fcmp_unordered") for sign in ("<", "<=", ">", ">=", "==", "!=")},
    "uno": lambda b, g: b.fcmp_unordered("uno", g["u"], g["v"]),
    "flags of integers": lambda b, g: b.mul(g["x"], g["y"], flags=("nuw", "nsw")),
    "fneg": lambda b, g: b.fneg(g["u"], flags=("contract",)),
    "neg": lambda b, g: b.neg(g["x"]),
    "not": lambda b, g: b.not_(g["x"]),
    "select": lambda b, g: b.select(b.icmp_signed("<", g["x"], g["y"]), g["u"], g["v"]),
    "select pointers": lambda b, g: b.select(b.icmp_signed("<", g["x"], g["y"]), g["p"], g["p"]),
    "trunc": lambda b, g: b.trunc(g["x"], BYTE),
    "zext": lambda b, g: b.zext(b.trunc(g["x"], BYTE), WORD),
    "sext": lambda b, g: b.sext(b.trunc(g["x"], BYTE), WORD),
    "fptrunc": lambda b, g: b.fpext(b.fptrunc(g["u"], SINGLE), DOUBLE),
    "sitofp": lambda b, g: b.sitofp(g["x"], SINGLE),
    "uitofp": lambda b, g: b.uitofp(g["x"], DOUBLE),
    "fptosi": lambda b, g: b.fptosi(g["u"], WORD),
    "no conversion": lambda b, g: b.zext(g["x"], WORD),
    "bits": lambda b, g: b.bitcast(g["u"], WORD),
    "pointers": lambda b, g: b.inttoptr(b.ptrtoint(g["p"], WORD), POINTER),
    "load": lambda b, g: b.load(g["p"]),
    "load aligned": lambda b, g: b.load(g["q"], align=2),
    "gep": lambda b, g: b.gep(g["p"], [g["x"]]),
    "gep inbounds": lambda b, g: b.gep(g["q"], [g["y"]], inbounds=True),
    "store": lambda b, g: b.store(g["u"], g["p"]) and None,
    "store aligned": lambda b, g: b.store(g["x"], g["q"], align=2) and None,
    "extract": lambda b, g: b.extract_element(g["w"], g["x"]),
    "insert": lambda b, g: b.insert_element(g["w"], g["u"], g["x"]),
    "compare vectors": lambda b, g: b.bitcast(b.fcmp_ordered("<", g["w"], g["w"]), ir.IntType(4)),
}  # fmt: skip


def plain(text):
    """Return a module as LLVM prints it, with names in the order in which they occur."""
    module = binding.parse_assembly(text, binding.create_context())
    module.verify()
    text = re.sub(r"^(source_filename|; ModuleID|target) .*\n", "", str(module), flags=re.MULTILINE)
    names = {}
    text = re.sub(r";.*", "", re.sub(r'^"?([\w.]+)"?:', r"%\1:", text, flags=re.MULTILINE))
    found = re.sub(r'%"?([\w.]+)"?', lambda m: f"%{names.setdefault(m[1], len(names))}", text)
    return [line.rstrip() for line in found.splitlines() if line.strip()]


def written(kinds, emit):
    """Return what both builders write of a function with parameters of these types."""
    ours = assembly.Module("m")
    function = ours.add(assembly.Function("f", ir.FunctionType(ir.VoidType(), kinds)))
    builder = assembly.Builder(ours, function)
    emit(builder, function.args)
    builder.ret_void()
    theirs = ir.Module("m")
    function = ir.Function(theirs, ir.FunctionType(ir.VoidType(), kinds), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    emit(builder, function.args)
    builder.ret_void()
    return plain(str(ours)), plain(str(theirs))


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_instructions_are_those_of_the_other_builder(name):
    kinds = {"x": WORD, "y": WORD, "u": DOUBLE, "v": DOUBLE, "p": POINTER, "q": WORD.as_pointer(), "w": FOUR}

    def emit(builder, args):
        result = INSTRUCTIONS[name](builder, dict(zip(kinds, args, strict=True)))
        if result is not None:
            builder.call(builder.inttoptr(args[0], ir.FunctionType(
                ir.VoidType(), [result.type]).as_pointer()), [result])  # fmt: skip

    ours, theirs = written([*kinds.values()], emit)
    assert ours == theirs
    assert len(ours) > 4


@pytest.mark.parametrize("name", sorted(instructions.declared().keys() - libm.FUNCTIONS.keys()))
def test_intrinsics_are_the_same_by_either_builder(name):
    made = instructions.declared()[name]
    count = len(inspect.signature(made.emit).parameters) - 1
    params, result = made.kinds(*GIVEN.get(name, ["int64"] * count))

    def emit(builder, args):
        value = made.emit(builder, *args)
        assert (value is None) == (result == "void")
        if value is not None:
            assert value.type == scalars.type_of(result)

    ours, theirs = written([scalars.type_of(k) for k in params], emit)
    assert ours == theirs


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        (ir.IntType(1), [0, 1, True]),
        (BYTE, [0, -128, 127]),
        (WORD, [0, -1, 2**63 - 1, 2**64 - 1, None]),
        (SINGLE, [0.0, -0.0, 0.1, 1e-45, 3.4e38, math.inf, -math.inf, math.nan, 3]),
        (DOUBLE, [0.0, -0.0, 0.1, 5e-324, 1e308, math.inf, -math.inf, math.nan, 2**53 + 1]),
        (FOUR, [None, 0.1, -math.inf]),
    ],
)
def test_constants_are_those_of_the_other_builder(kind, numbers):
    ours, theirs = ([f"@x{k} = global {kind} {x}" for k, x in enumerate(texts)] for texts in (
        [assembly.undefined(kind).text, *(assembly.constant(kind, x).text for x in numbers)],
        [ir.Constant(kind, x).get_reference() for x in (ir.Undefined, *numbers)],
    ))  # fmt: skip
    assert plain("\n".join(ours)) == plain("\n".join(theirs))


def builder_of(*kinds):
    module = assembly.Module("m")
    function = module.add(assembly.Function("f", ir.FunctionType(DOUBLE, kinds)))
    return scalars.Builder(module, function), function.args


def test_blocks_and_values_that_become_known_later():
    def emit(builder, args):
        before = builder.block
        head, inside, end = (builder.append_basic_block() for _ in range(3))
        builder.branch(head)
        builder.position_at_end(head)
        turn = builder.phi(WORD)
        turn.add_incoming(args[0], before)
        builder.cbranch(builder.icmp_signed("<", turn, args[1]), inside, end)
        builder.position_at_end(inside)
        turn.add_incoming(builder.add(turn, turn, flags=("nuw",)), inside)
        builder.branch(head)
        builder.position_at_end(end)
        cases = [builder.append_basic_block() for _ in range(3)]
        choice = builder.switch(args[0], cases[0])
        for k, case in enumerate(cases):
            builder.position_at_end(case)
            if k == 1:
                builder.unreachable()
            if k:
                choice.add_case(k, case)
            if k == 0:
                builder.branch(cases[2])

    ours, theirs = written([WORD, WORD], emit)
    assert ours == theirs


def test_likely_branches_and_those_that_leave():
    for likely in (None, True, False):

        def emit(builder, args, likely=likely):
            with builder.if_then(builder.icmp_signed("<", *args), likely=likely):
                with builder.if_then(builder.icmp_signed("==", *args), likely=likely):
                    builder.ret_void()
                builder.store(args[0], builder.inttoptr(args[1], WORD.as_pointer()))

        ours, theirs = written([WORD, WORD], emit)
        assert ours == theirs
        assert ("!prof" in "".join(ours)) == (likely is not None)


def test_what_was_written_is_forgotten_but_not_what_was_reserved():
    builder, (x,) = builder_of(DOUBLE)
    body = builder.append_basic_block()
    builder.branch(body)
    builder.position_at_end(body)
    place = builder.reserve(DOUBLE)
    builder.store(x, place)
    builder.access("one")
    mark = builder.mark()
    builder.load(place)
    builder.access("two")
    again = builder.append_basic_block()
    builder.branch(again)
    builder.position_at_end(again)
    more = builder.reserve(ir.ArrayType(DOUBLE, 3), 64)
    builder.rewind(mark)
    assert builder.block is body
    assert not body.is_terminated
    assert [scope for *_, scope in builder.accesses] == ["one"]
    builder.ret(builder.load(place))
    text = str(builder.module)
    assert f"{more.text} = alloca [3 x double], align 64" in text
    assert text.count(" load ") == text.count(" store ") == 1
    with pytest.raises(AssertionError):
        builder.ret(x)  # behind the end of a block


def test_a_product_knows_its_factors():
    builder, (x, y) = builder_of(DOUBLE, DOUBLE)
    product = builder.fmul(x, y)
    assert isinstance(product, assembly.Product)
    assert product.factors == (x, y)
    assert not isinstance(product.rounded(), assembly.Product)
    assert product.rounded().text == product.text


def test_types_are_compared_where_the_text_does_not_tell_them():
    builder, (x, p) = builder_of(WORD, POINTER)
    with pytest.raises(TypeError, match="i64 at a pointer to double"):
        builder.store(x, p)
    zero, none = assembly.constant(SINGLE, 0.0), assembly.constant(DOUBLE, 0.0)
    for write in (
        lambda: builder.add(x, assembly.constant(BYTE, -1)), lambda: builder.fmul(none, zero),
        lambda: builder.fcmp_ordered("<", none, zero), lambda: builder.icmp_signed("==", x, p),
        lambda: builder.phi(DOUBLE).add_incoming(zero, builder.block),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="beside"):
            write()
    seen = builder.bitcast(p, WORD.as_pointer())  # another name for the same
    builder.store(x, seen)
    assert seen.text == p.text


def test_modules_have_texts_functions_and_metadata():
    module = assembly.Module("m")
    texts = [b'a "quoted" \\ text\0', bytes(range(256)), b""]
    assert [module.string(t).text for t in texts] == ["@where", "@where.1", "@where.2"]
    first, second = module.declare("sin", ir.FunctionType(DOUBLE, [DOUBLE])), module.declare("sin", None)
    assert first is second
    assert module.node('!"x"', "i32 3") == module.node('!"x"', "i32 3") == "!0"
    assert [module.node("!0", own=True) for _ in range(2)] == ["!1", "!2"]
    module.used.append("sin")
    parsed = binding.parse_assembly(str(module), binding.create_context())
    parsed.verify()
    for given, found in zip(texts, parsed.global_variables, strict=False):
        (value,) = re.findall(r'constant \[(\d+) x i8\] (?:c"(.*)"|zeroinitializer|undef)', str(found))
        assert int(value[0]) == len(given)
        assert (
            re.sub(
                rb"\\(\\|..)",
                lambda m: m[1][:1] if m[1][:1] == b"\\" else bytes([int(m[1], 16)]),
                value[1].encode(),
            )
            == given
        )
    assert "!1 = distinct !{!1, !0}" in str(module) or "!1 = !{!1, !0}" in str(module)


KERNEL = """
X, OUT = (types.Array(types.{}, 1, "C", readonly=one) for one in (True, False))
DISTINCT = True


@typed(types.void(X, OUT, types.int64), "contract")
def kernel(x, out, n):
    kept = np.empty(8, np.{})
    for i in range(n):
        for k in unrolled(8):
            kept[k] = x[8 * i + k] * x[i] + x[k] * x[k + 1]
        out[i] = math.sqrt(kept[i % 8])
"""


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_a_kernel_says_what_llvm_may_do(kind):
    text = compilation.assembly(KERNEL.format(kind, kind), "function", "f")
    one = {"float32": "float", "float64": "double"}[kind]
    assert re.search(r"^define void @f\(ptr %a0, ptr %a1, i64 %a2, i64 %a3\)$", text, re.MULTILINE)
    assert f"alloca [8 x {one}], align 64" in text
    assert (
        len(re.findall(rf"call {one} @llvm.fmuladd.f{kind[-2:]}\({one} ", text)) == 1
    )  # one product of the sum
    assert " fadd " not in text
    assert f"call contract {one} @llvm.sqrt.f{kind[-2:]}({one} " in text
    accesses = [line for line in text.splitlines() if "!alias.scope" in line]
    assert len(accesses) == 7  # four of x, one of out, two of kept
    assert all(re.search(r", !alias\.scope !\d+, !noalias !\d+$", line) for line in accesses)
    assert re.search(r"^!\d+ = !{!\"llvm.loop.unroll.full\"}$", text, re.MULTILINE)
    assert re.search(r"^  br label %b\d+, !llvm.loop !\d+$", text, re.MULTILINE)
    assert "define" in optimised(text)


def test_flags_of_all_kinds_are_read_by_llvm():
    for flags in itertools.chain(FLAGS, [("nnan",), ("ninf", "nsz", "arcp", "afn")]):
        builder, (x, y) = builder_of(DOUBLE, DOUBLE)
        builder.ret(builder.fmul(x, y, flags=flags))
        (line,) = [a for a in plain(str(builder.module)) if "fmul" in a]
        assert {*flags} <= {*line.split()}
