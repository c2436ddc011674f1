"""Pictures of programs and recordings: what stands in them, parsed back from the SVG and measured."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import fgrad as fg
from fgrad.viz import Drawing, draw, take_notes, theme
from fgrad.viz.graph import Box, Graph, Item
from fgrad.viz.layout import Frame, Layout
from fgrad.viz.svg import size_of, title_width

SVG = "{http://www.w3.org/2000/svg}"


def parsed(drawing, **options):
    return ET.fromstring(drawing.to_svg(**options))


def marked(root, name):
    return [e for e in root.iter() if name in e.get("class", "").split()]


def texts(drawing):
    return [t.text for t in parsed(drawing).iter(f"{SVG}text")]


def counted(drawing):
    """Return how many cards, arrows and boxes the SVG has, from its elements alone."""
    root = parsed(drawing)
    return len(marked(root, "n")), len(marked(root, "a")), len(marked(root, "box"))


def in_scopes(p, x):
    with fg.named_scope("hidden"):
        h = np.tanh(x @ p["w"] + p["b"])
    with fg.named_scope("loss"), fg.named_scope("inside"):
        return np.sum((h - 1.0) ** 2) + np.mean(h)


def many_uses(x):
    a, b, c = np.sin(x), np.cos(x), np.exp(x)
    for _ in range(4):
        a, b, c = a * b + c, b - x * a, np.tanh(c) + a
    return (a + b + c + x).sum()


def scanned(w, xs):
    def step(h, x):
        h = np.tanh(w @ h + x)
        return h, h.sum()

    _, ys = fg.lax.scan(step, np.zeros(2), xs)
    return fg.lax.cond(ys[0] > 0, lambda v: v.sum(), lambda v: (v * v).sum(), ys)


def chain(y):
    for _ in range(150):
        y = np.sin(y) * 1.01
    return y


P = {"w": np.ones((3, 2)), "b": np.zeros(2)}
X = np.ones((4, 3))
DRAWINGS = {
    "scopes": lambda: draw(in_scopes)(P, X),
    "gradient": lambda: draw(fg.value_and_grad(in_scopes))(P, X),
    "many uses": lambda: draw(fg.grad(many_uses), collapse="none")(np.ones(3)),
    "loops": lambda: draw(scanned)(np.eye(2), np.ones((5, 2))),
    "chain": lambda: draw(chain, collapse="none")(np.ones(3)),
    "collapsed": lambda: draw(fg.grad(lambda x: chain(x).sum()))(np.ones(3)),
}


# ---- what is there ----------------------------------------------------------------------------------------


def test_every_operation_edge_and_box_is_drawn():
    drawing = draw(in_scopes)(P, X)
    # contract, add, tanh, subtract, square, sum, mean, add; three inputs, one output; edges counted by hand
    assert counted(drawing) == (8 + 3 + 1, 12, 3)
    found = texts(drawing)
    for text in ("contract", "ij,jk→ik", "tanh", "x", "p['w']", "hidden", "loss", "inside", "output"):
        assert text in found, text
    assert "float64[4,2]" in found
    assert any(re.fullmatch(r"test_drawing\.py:\d+", t) for t in found)
    assert "64 B" in found


@pytest.mark.parametrize("name", DRAWINGS)
def test_elements_are_those_of_the_graph(name):
    drawing = DRAWINGS[name]()
    graph = drawing.graph
    assert counted(drawing) == (len(graph.items), len(graph.edges), len(graph.boxes()))


def test_lines_and_tooltips_name_the_source():
    drawing = draw(lambda x: np.sin(x) * 2.0)(1.0)
    titles = [t.text for t in parsed(drawing).iter(f"{SVG}title")]
    assert any("np.sin(x) * 2.0" in t and "test_drawing.py:" in t for t in titles)


def test_parts_of_loops_and_branches_are_boxes():
    found = texts(draw(scanned)(np.eye(2), np.ones((5, 2))))
    for title in ("lax.scan, 5 times", "lax.cond", "branch 0", "branch 1"):
        assert title in found


def test_steps_back_stand_where_their_operations_do():
    graph = draw(fg.grad(in_scopes))(P, X).graph
    boxes = {}
    for i in graph.items:
        if i.kind == "operation":
            titles = tuple(b.title for b in i.box.path()) if i.box else ()
            boxes.setdefault(titles, []).append(i)
    assert set(boxes) == {
        ("hidden",),
        ("hidden, backward",),
        ("loss", "inside"),
        ("loss, backward", "inside, backward"),
    }
    (line,) = {i.line for i in boxes["hidden",]}
    assert {i.line for i in boxes["hidden, backward",]} == {line}
    assert "contract" in {i.name for i in boxes["hidden, backward",]}
    found = texts(draw(fg.grad(in_scopes))(P, X))
    assert any(re.fullmatch(r"test_drawing\.py:\d+, backward", t) for t in found)


def test_the_users_own_rule_keeps_its_lines():
    @fg.custom_vjp
    def f(x):
        return np.sin(x)

    def back(x, ct):
        return (ct * np.cos(x) * 3.0,)  # own rule

    f.defvjp(lambda x: (f(x), x), back)
    graph = draw(fg.grad(lambda x: f(x).sum()))(np.ones(3)).graph
    (cos,) = [i for i in graph.items if i.name == "cos"]
    assert cos.line.endswith(f":{back.__code__.co_firstlineno + 1}")


def test_lines_of_a_gradient_are_collapsed_apart_from_those_of_the_value():
    drawing = draw(fg.value_and_grad(lambda x: chain(x).sum()), collapse="line")(np.ones(3))
    counts = [i.count() for i in drawing.graph.items if i.kind == "group"]
    assert counts[0] == 300
    assert len(counts) == 2
    assert counts[1] > 300


def test_custom_rules_are_boxes():
    @fg.custom_vjp
    def twice(x):
        return np.sin(x) * 2

    twice.defvjp(lambda x: (twice(x), x), lambda x, ct: (2 * ct * np.cos(x),))
    drawing = draw(lambda x: twice(x).sum())(np.ones(3))
    (box,) = drawing.graph.boxes()
    assert [i.name for i in drawing.graph.items if i.box is box] == ["sin", "multiply"]


# ---- where it stands --------------------------------------------------------------------------------------


def apart(a: Frame, b: Frame) -> bool:
    return (
        a.left + a.width <= b.left
        or b.left + b.width <= a.left
        or a.top + a.height <= b.top
        or b.top + b.height <= a.top
    )


def within(a: Frame, b: Frame) -> bool:
    rounding = 1e-6
    return (
        b.left <= a.left + rounding
        and b.top <= a.top + rounding
        and a.left + a.width <= b.left + b.width + rounding
        and a.top + a.height <= b.top + b.height + rounding
    )


def random_graph(seed):
    """Return a graph of boxes within boxes that use each other in circles."""
    rng = np.random.default_rng(seed)
    boxes = [None]
    for k in range(5):
        boxes.append(Box(f"box {k}", "scope", boxes[rng.integers(len(boxes))]))
    graph = Graph()
    for k in range(30):
        sources = [graph.items[i] for i in rng.integers(0, k, min(k, int(rng.integers(0, 4))))]
        graph.add(Item("operation", f"op{k}", [], boxes[rng.integers(len(boxes))]), sources)
    return graph


@pytest.mark.parametrize("seed", range(12))
def test_nothing_overlaps_in_random_graphs(seed):
    graph = random_graph(seed)
    check_frames(graph)
    assert counted(Drawing(graph))[:2] == (len(graph.items), len(graph.edges))


@pytest.mark.parametrize("name", DRAWINGS)
def test_nothing_overlaps(name):
    check_frames(DRAWINGS[name]().graph)


def check_frames(graph):
    layout = Layout(graph, size_of, title_width)
    for a, b in itertools.combinations(graph.items, 2):
        assert apart(layout.items[a], layout.items[b]), (a.name, b.name)
    for box in graph.boxes():
        for item in graph.items:
            inside = item.box is not None and box in item.box.path()
            assert (within if inside else apart)(layout.items[item], layout.boxes[box]), (
                item.name,
                box.title,
            )
    for a, b in itertools.combinations(graph.boxes(), 2):
        fa, fb = layout.boxes[a], layout.boxes[b]
        if a in b.path():
            assert within(fb, fa)
        else:
            assert b in a.path() or apart(fa, fb)
    whole = Frame(0.0, 0.0, layout.width, layout.height)
    assert all(within(f, whole) for f in (*layout.items.values(), *layout.boxes.values()))


@pytest.mark.parametrize("name", DRAWINGS)
def test_edges_lead_from_source_to_target_around_the_others(name):
    graph = DRAWINGS[name]().graph
    layout = Layout(graph, size_of, title_width)
    starts = {}
    for path in layout.paths:
        starts.setdefault(path.source, []).append(path)
    for source, target in graph.edges:
        (end,) = [p for p in starts[source] if p.target is target]
        frame = layout.items[target]
        x, y = end.points[-1]
        assert y == pytest.approx(frame.top)
        assert frame.left < x < frame.left + frame.width
        # pieces of the way back to the source: each begins where another one passes
        pieces = starts[source]
        reached, todo = set(), [end]
        while todo:
            piece = todo.pop()
            if id(piece) in reached:
                continue
            reached.add(id(piece))
            todo += [p for p in pieces if any(np.allclose(q, piece.points[0], atol=1e-6) for q in p.points)]
        frame = layout.items[source]
        begins = [p.points[0] for p in pieces if id(p) in reached]
        assert any(
            y == pytest.approx(frame.top + frame.height) and frame.left <= x <= frame.left + frame.width
            for x, y in begins
        ), (source.name, target.name)
    for path in layout.paths:
        for (xa, ya), (xb, yb) in itertools.pairwise(path.points):
            if xa == xb and yb > ya:  # straight down: through no card
                for item, f in layout.items.items():
                    if item not in (path.source, path.target) and f.left < xa < f.left + f.width:
                        assert yb <= f.top + 1e-6 or ya >= f.top + f.height - 1e-6, item.name


def test_a_tall_picture_is_cut_into_columns_of_the_width_that_is_asked_for():
    wide = float(parsed(draw(chain, collapse="none")(np.ones(3))).get("width"))
    narrow = float(parsed(draw(chain, collapse="none", width=400)(np.ones(3))).get("width"))
    assert narrow < 450 < wide < 1100


def test_arguments_stand_above_what_uses_them():
    graph = draw(fg.grad(many_uses), collapse="none")(np.ones(3)).graph
    layout = Layout(graph, size_of, title_width, width=0.0)
    for a, b in graph.edges:
        assert layout.items[a].top + layout.items[a].height < layout.items[b].top


# ---- collapse ---------------------------------------------------------------------------------------------


def test_a_line_becomes_one_item():
    drawing = draw(chain)(np.ones(3))
    (group,) = [i for i in drawing.graph.items if i.kind == "group"]
    assert (group.count(), drawing.graph.count()) == (300, 300)
    assert "300 operations" in texts(drawing)
    assert "y = np.sin(y) * 1.01" in texts(drawing)
    assert counted(drawing)[:2] == (3, 2)


def test_scopes_become_items_where_there_are_many():
    def f(x):
        for k in range(3):
            with fg.named_scope(f"part {k}"):
                for _ in range(15):
                    x = np.sin(x)
                    x = x * 2.0
        return x

    names = [i.name for i in draw(f)(1.0).graph.items if i.kind == "group"]
    assert names == ["part 0", "part 1", "part 2"]
    assert not [i for i in draw(f, collapse="none")(1.0).graph.items if i.kind == "group"]
    assert {i.count() for i in draw(f, collapse="scope")(1.0).graph.items if i.kind == "group"} == {30}


def test_lines_that_use_each_other_become_one_item():
    def f(x, y):
        for _ in range(40):
            x = np.sin(y)
            y = np.cos(x)
        return y

    drawing = draw(f, collapse="line")(1.0, 2.0)
    (group,) = [i for i in drawing.graph.items if i.kind == "group"]
    assert group.count() == 80
    assert "on 2 lines" in group.detail


def test_chains_are_collapsed_where_lines_are_not_known():
    x = fg.tensor(np.ones(3))
    with fg.GradManager().attach(x):
        y = chain(x)
        drawing = draw(y)
    (group,) = [i for i in drawing.graph.items if i.kind == "group"]
    assert (group.name, group.count()) == ("sin, multiply", 300)


def test_an_unknown_choice_is_refused():
    with pytest.raises(ValueError, match="collapse is one of 'auto', 'none'"):
        draw(chain, collapse="all")
    with pytest.raises(ValueError, match="theme is one of 'auto', 'light', 'dark'"):
        draw(np.sin)(1.0).to_svg("blue")


# ---- recordings -------------------------------------------------------------------------------------------


def nested():
    x, w = fg.tensor(np.array([1.0, 2.0])), fg.tensor(np.array([0.5, -1.0]))
    outer, inner = fg.GradManager().attach(x), fg.GradManager().attach(w)
    with take_notes(), outer:
        with inner:
            y = np.sin(x * w)
            z = (y * y).sum()
            before = draw(z)
            inner.backward(z)
        slope = (w.grad**2).sum()
        outer.backward(slope)
    return before, draw([slope, z])


def paths(drawing):
    return {i.label or i.name: [b.title for b in i.box.path()] for i in drawing.graph.items}


def test_nested_managers_are_nested_boxes():
    before, after = nested()
    assert paths(before)["z"] == ["outer", "inner"]
    assert paths(before)["x"] == ["outer"]
    assert paths(before)["w"] == ["outer", "inner"]
    assert paths(after)["y"] == ["outer", "inner"]
    assert paths(after)["cos"] == ["outer", "inner.backward"]
    assert paths(after)["slope"] == ["outer"]
    assert paths(after)["w"] == ["outer", "inner"]


def test_attached_tensors_have_shapes_where_their_operations_do_not_say():
    x, w = fg.tensor(np.ones((2, 3))), fg.tensor(np.ones(3))
    with take_notes(), fg.GradManager().attach([x, w]) as gm:
        y = (x @ w).sum()
        during = draw(y)
        gm.backward(y)
    for drawing in (during, draw(y)):
        assert {i.label: str(i.avals[0]) for i in drawing.graph.items if i.kind == "input"} == {
            "x": "float64[2,3]",
            "w": "float64[3]",
        }


def test_a_group_is_one_box():
    a, b = fg.tensor(2.0), fg.tensor(5.0)
    left, right = fg.GradManager().attach(a), fg.GradManager().attach(b)
    with left | right as group:
        y = a * a * b
        assert paths(draw(y))["y"] == ["left | right"]
        assert draw(group).graph.count() == draw(y).graph.count() == 2
        left.backward(y)
        right.backward(y)


def test_avals_are_found_without_notes():
    x, w = fg.tensor(np.ones((2, 3))), fg.tensor(2.0)
    outer, inner = fg.GradManager().attach(x), fg.GradManager().attach([x, w])
    with outer, inner:
        y = (np.negative(np.sin(x)) * w + 1.0).T
        z = y.sum()
        graph = draw(z, names={}).graph
        inner.backward(z)
        second = draw(x.grad, names={}).graph
    for g in (graph, second):
        for i in g.items:
            expected = {"sum": (), "transpose": (3, 2)}.get(i.name, (2, 3))
            shapes = {a.shape for a in i.avals}
            assert shapes <= {expected, ()} if i.kind == "input" else shapes == {expected}, (i.name, shapes)
    assert graph.hint.startswith("lines, scopes and times are noted inside")


def test_notes_keep_what_was_there_after_backward():
    x = fg.tensor(np.array([3.0, 4.0]))
    with take_notes(), fg.GradManager().attach(x) as gm:
        with fg.named_scope("square"):
            y = x * x
        z = y.sum()
        gm.backward(z)
    graph = draw(z).graph
    by_name = {i.label or i.name: i for i in graph.items}
    assert by_name["x"].norm == pytest.approx(10.0)  # 2x
    assert by_name["y"].norm == pytest.approx(2**0.5)
    assert [b.title for b in by_name["y"].box.path()] == ["gm", "square"]
    assert all(
        i.seconds > 0 and i.reverse_seconds > 0 and "test_drawing.py" in i.line
        for i in graph.items
        if i.name != "attached"
    )
    found = " ".join(texts(draw(z)))
    assert "‖∇‖ 10" not in found  # an input has one line
    assert "‖∇‖ 1.414" in found


def test_a_manager_is_drawn_with_everything_it_recorded():
    x = fg.tensor([1.0, 2.0])
    with fg.GradManager().attach(x) as gm:
        a, b = np.sin(x), np.cos(x)
        assert {i.label for i in draw(gm, names={"x": x, "s": a, "c": b}).graph.items} == {"x", "s", "c"}
    with pytest.raises(TypeError, match="has recorded nothing, or its recording has ended"):
        draw(gm)


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(TypeError, match="no recording contains this Tensor"):
        draw(fg.tensor(1.0))
    with pytest.raises(TypeError, match=r"draw takes a function.*not int; write draw\(f\)\(x\)"):
        draw(3)


def test_jitted_and_staged_programs_are_drawn():
    program = fg.make_graph(np.sin)(np.ones(3))
    assert draw(program).graph.count() == 1
    assert draw(fg.jit(lambda x: np.sin(x)).lower(np.ones(3))).graph.count() == 1
    assert draw(fg.jit(np.sin))(np.ones(3)).graph.count() == 1


# ---- safety, determinism, other languages ------------------------------------------------------------------


def test_text_is_escaped():
    evil = '<script>alert("x")</script>&\'"'

    def f(x):
        with fg.named_scope(evil):
            return x["<b>&"] + 1.0

    drawing = draw(f)({"<b>&": 1.0})
    for made in (drawing.to_svg(), drawing._repr_html_()):
        assert "<script>alert" not in made
        assert "<b>" not in made
    assert evil in texts(drawing)
    mermaid = drawing.to_mermaid()
    assert "<script" not in mermaid
    assert mermaid.count('"') % 2 == 0


def test_the_same_computation_gives_the_same_picture():
    for make in DRAWINGS.values():
        first, second = make(), make()
        assert first.to_svg() == second.to_svg()
        assert first.to_dot() == second.to_dot()


def test_other_languages_have_all_items_and_edges():
    drawing = draw(in_scopes)(P, X)
    items, edges, boxes = counted(drawing)
    dot, mermaid = drawing.to_dot(), drawing.to_mermaid()
    assert dot.count("[label=") == items
    assert dot.count(" -> ") == mermaid.count(" --> ") == edges
    assert dot.count("subgraph") == mermaid.count("subgraph") == mermaid.count("\n  end") + 1 == boxes


def test_files(tmp_path):
    drawing = draw(in_scopes)(P, X)
    for name in ("a.svg", "a.html", "a.dot", "a.mmd"):
        drawing.save(tmp_path / name, theme="dark")
    ET.fromstring((tmp_path / "a.svg").read_text())
    assert "<svg" in (tmp_path / "a.html").read_text()
    with pytest.raises(ValueError, match=r"\.svg, \.html, \.dot, \.mmd, not \.png"):
        drawing.save(tmp_path / "a.png")


def test_themes():
    drawing = draw(np.sin)(1.0)
    auto, light, dark = (drawing.to_svg(t) for t in ("auto", "light", "dark"))
    for selector in (
        "prefers-color-scheme:dark",
        'data-jp-theme-light="false"',
        'data-md-color-scheme="slate"',
    ):
        assert selector in auto
    rules = dark.partition("--fg-paper")[2]
    assert "var(--fg" in auto
    assert "var(--fg" not in light
    assert f"fill:{theme.DARK['card']}" in rules
    assert f"fill:{theme.LIGHT['card']}" in light
    assert set(theme.LIGHT) == set(theme.DARK)


@pytest.mark.parametrize(
    "name, family",
    [("convert", "linear"), ("conv", "product"), ("contract", "product"), ("argmax", "reduction")],
)
def test_colours_are_by_what_a_primitive_does(name, family):
    assert Item("operation", name).family == family
