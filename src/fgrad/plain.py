"""Functions of plain NumPy that run on Tensors unmodified: their `numpy` is bound to `fgrad.numpy`.

`y = numpy.zeros(3)` makes an array, which cannot hold what is being differentiated. A function is therefore
made again from its code, with other globals: a mapping that looks into the module at every access, and hands
out `fgrad.numpy` where it finds NumPy. What the function calls in its own package is found there too, and is
made again in the same way. The module itself, and everybody else who calls its functions, see nothing of it.
"""

from __future__ import annotations

import builtins
import enum
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np

from fgrad import locks
from fgrad import numpy as fnp
from fgrad.compat.cpython import Bindings, bindings
from fgrad.core.tensor import Tensor
from fgrad.core.trace import current
from fgrad.transforms.calling import Transformed, has_tensor, name_of

F = TypeVar("F", bound=Callable[..., Any])

_LIBRARIES = frozenset({"fgrad", "numpy", "scipy"})  # whose functions stay as they are where others call them
_AS_THEY_ARE = frozenset(
    {int, float, complex, bool, str, bytes, type(None), list, tuple, dict, set, np.ndarray}
)
_REPLACED = (types.FunctionType, types.MethodType, types.ModuleType, functools.partial, Transformed, type)
_ABSENT: Any = object()
# `__annotate__`, where there is one, computes the annotations when they are asked for
_DESCRIBED = ("__type_params__", "__annotate__" if sys.version_info >= (3, 14) else "__annotations__")
_OF_CLASSES = frozenset({"__init_subclass__", "__subclasshook__"})  # what is not bound
_EMPTY = types.CellType()
_SUSPENDING = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class PlainNumpy(Transformed):
    """A function of plain NumPy that runs on Tensors."""

    def __init__(self, fun: Callable[..., Any], binding: _Binding | None = None) -> None:
        super().__init__(fun)
        self._binding = binding

    def __reduce__(self) -> Any:
        name: str = self.__dict__.get("__qualname__", "")
        try:  # what stands in the place of the function it decorates is known by its name
            found: Any = sys.modules[self.__module__]
            for part in name.split("."):
                found = getattr(found, part)
        except (AttributeError, KeyError):
            found = None
        return name if found is self else (type(self), (self.fun,))

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        if not current().traces and not has_tensor(args, kwargs):
            return self.fun(*args, **kwargs)
        binding = self.bound_to()
        function = binding.of(self.fun)
        binding.renew()
        try:
            return function(*args, **kwargs)
        finally:
            binding.write_back()

    def bound_to(self) -> _Binding:
        """Return what says how the names of this function are bound."""
        if self._binding is None:
            fun: Any = self.fun
            while isinstance(fun, functools.partial):
                fun = fun.func
            self._binding = _Binding(_package(getattr(fun, "__module__", None)))
        return self._binding


def plain_numpy(fun: F) -> F:
    """Return a function of plain NumPy as one that runs on Tensors, unmodified.

    Wherever `fun`, and the functions and classes of the same package that it uses by name, say `numpy` (also
    by `from numpy import zeros`, `import numpy.linalg as la`, in closures and defaults), they get
    `fgrad.numpy`. So `numpy.zeros` makes a Tensor, which may be written to. Nobody else sees a difference:
    neither the module nor its other callers. Where nothing is traced and no argument is a Tensor, `fun`
    itself runs.

    Args:
        fun: a function, method, `functools.partial`, function that fgrad transformed, or a class, whose
            methods are then bound. Methods of objects made elsewhere stay as they are; decorate their class.

    Returns:
        A function of the same arguments; for a class a class of the same name.

    Raises:
        TypeError: `fun` is nothing of the kind, or a function deletes a global name, or is a generator that
            writes one.

    Derivative:
        That of the same operations on Tensors.

    Example:
        >>> import numpy
        >>> from fgrad import grad, plain_numpy
        >>> def squares(x):
        ...     y = numpy.zeros(3)
        ...     for i in range(3):
        ...         y[i] = x[i] ** 2
        ...     return y.sum()
        >>> grad(plain_numpy(squares))(numpy.array([1.0, 2.0, 3.0]))
        array([2., 4., 6.])
    """
    if isinstance(fun, PlainNumpy):
        return fun
    made: Any
    if isinstance(fun, type):
        made = _Binding(_package(fun.__module__)).class_again(fun)
    elif isinstance(fun, types.MethodType) and isinstance(fun.__func__, types.FunctionType):
        made = types.MethodType(PlainNumpy(fun.__func__), fun.__self__)
    elif isinstance(fun, Transformed):
        made = fun.again(plain_numpy)
    elif isinstance(fun, types.FunctionType | functools.partial):
        made = PlainNumpy(fun)
    elif id(fun) in _counterparts():
        made = _counterparts()[id(fun)]
    else:
        raise TypeError(
            f"plain_numpy takes a function of Python, a method, a functools.partial or a class, not {fun!r}; "
            "decorate the function that does the computation, or the class of a callable object"
        )
    return cast("F", made)


def _package(module: str | None) -> str:
    """Return the name of the outermost package that a module belongs to; for libraries that of the module."""
    module = module or "__main__"
    package = module.partition(".")[0]
    return module if package in _LIBRARIES else package


class _Numpy(types.ModuleType):
    """A module of NumPy as functions bound to fgrad see it: with fgrad's names in the place of NumPy's."""

    def __init__(self, real: types.ModuleType, own: types.ModuleType) -> None:
        super().__init__(real.__name__, real.__doc__)
        self.__dict__["_real"] = real
        for name in dir(own):
            if not name.startswith("_") and hasattr(real, name):
                self.__dict__[name] = getattr(own, name)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        return _counterparts().get(id(found), found)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)

    def __dir__(self) -> list[str]:
        return dir(self._real)


@functools.cache
def _counterparts() -> dict[int, Any]:
    """Return what stands for NumPy's functions and modules, by the identity of these, which live for ever."""
    found: dict[int, Any] = {}
    todo = [(np, fnp)]
    while todo:
        real, own = todo.pop()
        for name in dir(own):
            theirs, ours = getattr(real, name, None), getattr(own, name)
            if name.startswith("_") or theirs is None or theirs is ours:
                continue
            if isinstance(ours, types.ModuleType):
                if isinstance(theirs, types.ModuleType) and theirs.__name__.startswith("numpy"):
                    todo.append((theirs, ours))
            elif getattr(theirs, "__module__", None) != "builtins" or not isinstance(theirs, type):
                found[id(theirs)] = ours
        found[id(real)] = _Numpy(real, own)
    for space in [v for v in found.values() if isinstance(v, _Numpy)]:
        for name, value in list(space.__dict__.items()):
            if isinstance(value, types.ModuleType) and name != "_real":
                space.__dict__[name] = found.get(id(getattr(space._real, name)), value)
    return found


class _Binding:
    """How the functions of one package are bound, for one decorated function or class."""

    lock: Any

    def __init__(self, package: str) -> None:
        self.package = package
        self.functions: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self.classes: WeakKeyDictionary[type, type] = WeakKeyDictionary()
        self.members: WeakKeyDictionary[type, dict[str, Any]] = WeakKeyDictionary()  # of classes, when bound
        self.defaults: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # what was made -> of its source
        self.modules: dict[str, _Module] = {}
        self.spaces: dict[int, _Globals] = {}
        self.sources: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # what was made again -> of what
        self.cells: list[tuple[types.CellType, types.CellType]] = []
        self.lock = locks.lock()

    def of(self, x: Any) -> Any:
        """Return what stands for a value that a name had: NumPy's own, and the functions of the package."""
        kind = x.__class__
        if kind in _AS_THEY_ARE or kind is Tensor:
            return x
        found = _counterparts().get(id(x), _ABSENT)
        if found is not _ABSENT:
            return found
        if kind is types.FunctionType:
            with self.lock:  # another thread must not get one that is half made
                return self.function(x)
        if kind is PlainNumpy:
            return self.of(x.fun) if self.holds(getattr(x, "__module__", None)) else x
        if isinstance(x, types.ModuleType):
            return self.module(x) if self.holds(x.__name__) else x
        if isinstance(x, type):
            return self.class_(x)
        if kind is types.MethodType:
            function = self.of(x.__func__)
            return x if function is x.__func__ else types.MethodType(function, x.__self__)
        if kind is functools.partial or isinstance(x, Transformed):
            return self.around(x)
        return x

    def holds(self, module: str | None) -> bool:
        """Return whether a module belongs to the package."""
        return _package(module) == self.package

    def around(self, x: Any) -> Any:
        """Return a partial or transformed function with the one bound that it is made of."""
        made = self.functions.get(x)
        if made is None:
            if isinstance(x, functools.partial):
                parts = (x.func, *x.args, *x.keywords.values())
                bound = [self.of(p) for p in parts]
                if all(b is p for b, p in zip(bound, parts, strict=True)):
                    return x
                n = 1 + len(x.args)
                made = functools.partial(
                    bound[0], *bound[1:n], **dict(zip(x.keywords, bound[n:], strict=True))
                )
            elif (made := x.again(self.of)) is x:
                return x
            self.functions[x], self.sources[made] = made, x
        return made

    def function(self, f: types.FunctionType) -> types.FunctionType:
        """Return a function with its names bound, the same one every time."""
        made = self.functions.get(f)
        if made is not None:
            return cast("types.FunctionType", made)
        space = f.__globals__
        own = self.holds(space.get("__name__"))
        if isinstance(space, _Globals) or not (own or (f.__closure__ and self.holds(f.__module__))):
            return f
        facts = bindings(f.__code__)
        if own:
            self._check(f, facts)
            space = self.space(space, facts)
        cells = tuple(
            [
                self._cell(c, n, facts)
                for c, n in zip(f.__closure__ or (), f.__code__.co_freevars, strict=True)
            ]
        )
        made = types.FunctionType(f.__code__, space, f.__name__, None, cells)
        made = self.functions.setdefault(f, made)
        self.sources[made] = f
        made.__dict__ = f.__dict__  # so that counters and the like are the same for all callers
        made.__qualname__, made.__module__, made.__doc__ = f.__qualname__, f.__module__, f.__doc__
        for name in _DESCRIBED:
            if hasattr(f, name):
                setattr(made, name, getattr(f, name))
        self._follow(f, made)
        for old, new in zip(f.__closure__ or (), cells, strict=True):
            if old is not new:
                new.cell_contents = self.of(old.cell_contents)
                self.cells.append((old, new))
        if own:
            self.spaces[id(f.__globals__)].show()
        return cast("types.FunctionType", made)

    def _follow(self, f: types.FunctionType, made: types.FunctionType) -> None:
        """Give what was made of a function the code and defaults that this has now."""
        if made.__code__ is not f.__code__:  # as when its module was reloaded
            facts = bindings(f.__code__)
            if self.holds(f.__globals__.get("__name__")):
                self._check(f, facts)
                self.space(f.__globals__, facts)
            made.__code__ = f.__code__
        if self.defaults.get(made) is not f.__defaults__:
            self.defaults[made] = f.__defaults__
            made.__defaults__ = f.__defaults__ and tuple(map(self.of, f.__defaults__))
        if f.__kwdefaults__ or made.__kwdefaults__:
            made.__kwdefaults__ = {k: self.of(v) for k, v in (f.__kwdefaults__ or {}).items()} or None

    def _follow_class(self, c: type, made: type) -> None:
        """Give what was made of a class the methods that this has now."""
        known = self.members[c]
        if known.keys() == c.__dict__.keys() and all(c.__dict__[name] is x for name, x in known.items()):
            return
        self.members[c] = now = dict(c.__dict__)
        if made is c:
            del self.classes[c]
            self.class_(c)
            return
        for name in known.keys() | now.keys():
            x = now.get(name, _ABSENT)
            if x is known.get(name, _ABSENT) or name in _OF_CLASSES:
                continue
            bound = x if x is _ABSENT else self._member(x)
            if bound is not x:
                setattr(made, name, bound)
            elif name in made.__dict__:
                delattr(made, name)

    def _cell(self, cell: types.CellType, name: str, facts: Bindings) -> types.CellType:
        """Return the cell itself, which others may write to, unless something else stands for what it holds.

        That of `super` holds the class that defined a method, whose place among the bases matters.
        """
        if name == "__class__" or cell == _EMPTY or name in facts.assigned:
            return cell
        x = cell.cell_contents
        return types.CellType() if isinstance(x, _REPLACED) or id(x) in _counterparts() else cell

    @staticmethod
    def _check(f: types.FunctionType, facts: Bindings) -> None:
        suspends = f.__code__.co_flags & _SUSPENDING
        if facts.deleted or (facts.written and suspends):
            names = ", ".join(sorted(facts.deleted or facts.written))
            does = "deletes" if facts.deleted else "is a generator or coroutine that writes"
            raise TypeError(
                f"plain_numpy cannot bind the names of {name_of(f)}, which {does} the global {names}: the "
                "module would not see it in time. Keep it in an object, or move it to a function that is not "
                "bound"
            )

    def space(self, live: dict[str, Any], facts: Bindings) -> _Globals:
        """Return the globals of a module as functions see them that are bound."""
        found = self.spaces.get(id(live))
        if found is None:
            found = self.spaces.setdefault(id(live), _Globals(live, self))
        found.written |= facts.written
        found.shown |= facts.shown
        return found

    def module(self, m: types.ModuleType) -> types.ModuleType:
        """Return a module of the package, with functions that are bound."""
        return self.modules.get(m.__name__) or self.modules.setdefault(m.__name__, _Module(m, self))

    def class_(self, c: type) -> type:
        """Return a class of the package with methods that are bound, if one of them needs it."""
        if not self.holds(c.__module__) or isinstance(c, _Bound):
            return c
        made = self.classes.get(c)
        if made is None:
            special = issubclass(c, BaseException | enum.Enum) or any(
                "__init_subclass__" in base.__dict__ for base in c.__mro__[:-1]
            )
            made = c if special or not any(map(self._needs, _functions(c))) else self.class_again(c)
            self.classes[c], self.members[c] = made, dict(c.__dict__)
        return made

    def class_again(self, c: type) -> type:
        """Return a class derived from `c` with bound methods; instances of `c` are instances of it, too."""
        space: dict[str, Any] = {
            "__module__": c.__module__,
            "__qualname__": c.__qualname__,
            "__doc__": c.__doc__,
        }
        for name, x in c.__dict__.items():
            bound = x if name in _OF_CLASSES else self._member(x)
            if bound is not x:
                space[name] = bound
        if "__slots__" in c.__dict__:
            space["__slots__"] = ()
        space["_plain_numpy_of"] = c
        bases = [again for b in c.__bases__ if (again := self.class_(b)) is not b]
        kind = type(c)
        meta = _Bound if kind is type else types.new_class(kind.__name__, (_Bound, kind))
        made: type = meta(c.__name__, (c, *bases), space)
        self.classes[c], self.sources[made], self.members[c] = made, c, dict(c.__dict__)
        return made

    def _member(self, x: Any) -> Any:
        if isinstance(x, types.FunctionType):
            return PlainNumpy(x, self)
        if isinstance(x, staticmethod | classmethod):
            function = self._member(x.__func__)
            return x if function is x.__func__ else type(x)(function)
        if isinstance(x, property):
            return property(self._member(x.fget), self._member(x.fset), self._member(x.fdel), x.__doc__)
        if isinstance(x, functools.cached_property):
            return functools.cached_property(self._member(x.func))
        return x

    def _needs(self, f: types.FunctionType) -> bool:
        """Return whether a name in a function means something else when it is bound."""
        facts = bindings(f.__code__)
        space = f.__globals__
        values = [space[n] for n in facts.names if n in space]
        values += [c.cell_contents for c in f.__closure__ or () if c != _EMPTY]
        return facts.imports or any(
            id(v) in _counterparts()
            or (
                isinstance(v, types.FunctionType | types.ModuleType)
                and self.holds(getattr(v, "__module__", v.__name__))
            )
            for v in values
        )

    def source(self, x: Any) -> Any:
        """Return what `x` was made of, if it was made here: what others are to see."""
        if isinstance(x, _Module | _Numpy):
            return x._real
        made = isinstance(x, types.FunctionType | functools.partial | Transformed | type)
        return self.sources.get(x, x) if made else x

    def renew(self) -> None:
        """Let functions, closures and classes see what is so now."""
        with self.lock:
            for f, made in list(self.functions.items()):
                if isinstance(f, types.FunctionType):
                    self._follow(f, made)
            for c, made in list(self.classes.items()):
                self._follow_class(c, made)
        for old, new in self.cells:
            if old != _EMPTY:
                new.cell_contents = self.of(old.cell_contents)
        for space in list(self.spaces.values()):
            space.show()

    def write_back(self) -> None:
        """Give modules what functions wrote to their global names."""
        for space in list(self.spaces.values()):
            space.write_back()


class _Bound(type):
    """The class of classes whose methods are bound."""

    def __instancecheck__(cls, x: Any) -> bool:
        source = cls.__dict__.get("_plain_numpy_of")
        return super().__instancecheck__(x) if source is None else isinstance(x, source)

    def __subclasscheck__(cls, c: type) -> bool:
        source = cls.__dict__.get("_plain_numpy_of")
        return super().__subclasscheck__(c) if source is None else issubclass(c, source)


def _functions(c: type) -> Iterator[types.FunctionType]:
    """Yield the functions of Python among the members of a class and its bases."""
    for base in c.__mro__:
        for x in base.__dict__.values():
            parts = (x.fget, x.fset, x.fdel) if isinstance(x, property) else (getattr(x, "__func__", x),)
            for f in parts:
                if isinstance(f, types.FunctionType):
                    yield f


class _Module(types.ModuleType):
    """A module of the package as functions see it that are bound."""

    def __init__(self, real: types.ModuleType, binding: _Binding) -> None:
        super().__init__(real.__name__, real.__doc__)
        self.__dict__.clear()
        self.__dict__.update(_real=real, _binding=binding)

    def __getattr__(self, name: str) -> Any:
        return self._binding.of(getattr(self._real, name))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, self._binding.source(value))

    def __delattr__(self, name: str) -> None:
        delattr(self._real, name)

    def __dir__(self) -> list[str]:
        return dir(self._real)


class _Globals(dict[str, Any]):
    """The global names of a module, as they are at every access; what stands for their values is handed out.

    Python's own instructions read names by `__getitem__`, but for those in the body of a class, which it
    looks up in the dictionary itself before version 3.13, as it writes to the dictionary itself: what stands
    in it was either shown to a class, or written by a function and goes to the module.
    """

    __slots__ = ("binding", "live", "shown", "written")

    binding: _Binding
    live: dict[str, Any]

    def __init__(self, live: dict[str, Any], binding: _Binding) -> None:
        # what Python looks for in the dictionary itself, for warnings say
        super().__init__(__builtins__=_Builtins(live, binding), __name__=live.get("__name__"))
        self.live, self.binding = live, binding
        self.written: frozenset[str] = frozenset()
        self.shown: frozenset[str] = frozenset()

    def __getitem__(self, name: str) -> Any:
        if self.written:
            self.write_back()
        value = self.live.get(name, _ABSENT)
        if value is _ABSENT:
            return dict.__getitem__(self, "__builtins__")[name]
        return value if value.__class__ in _AS_THEY_ARE else self.binding.of(value)

    def write_back(self) -> None:
        """Give the module what was written here."""
        for name in self.written:
            value = dict.pop(self, name, _ABSENT)
            if value is not _ABSENT:
                self.live[name] = self.binding.source(value)

    def show(self) -> None:
        """Let the bodies of classes see what names mean now."""
        for name in self.shown - self.written:
            if name in self.live:
                dict.__setitem__(self, name, self[name])

    def __setitem__(self, name: str, value: Any) -> None:
        self.live[name] = self.binding.source(value)

    def __delitem__(self, name: str) -> None:
        del self.live[name]

    def __contains__(self, name: object) -> bool:
        return name in self.live

    def __iter__(self) -> Iterator[str]:
        return iter(self.live)

    def __len__(self) -> int:
        return len(self.live)

    def get(self, name: str, default: Any = None) -> Any:
        """Return what stands for the value of a name."""
        return self[name] if name in self.live else default

    def keys(self) -> Any:
        """Return the names."""
        return self.live.keys()

    def values(self) -> Any:
        """Return what stands for the values."""
        return [self[name] for name in self.live]

    def items(self) -> Any:
        """Return the names, each with what stands for its value."""
        return [(name, self[name]) for name in self.live]


class _Builtins(dict[str, Any]):
    """Python's own names, where an import gives what stands for a module."""

    __slots__ = ("live",)

    def __init__(self, live: dict[str, Any], binding: _Binding) -> None:
        def bound_import(
            name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
        ) -> Any:
            return binding.of(_builtins(live)["__import__"](name, live, locals, fromlist, level))

        super().__init__(__import__=bound_import)
        self.live = live

    def __missing__(self, name: str) -> Any:
        return _builtins(self.live)[name]


def _builtins(live: dict[str, Any]) -> Any:
    found = live.get("__builtins__", builtins)
    return vars(found) if isinstance(found, types.ModuleType) else found
