"""Pictures of computations for notebooks and files, made by Python alone: graphs, profiles, values."""

from fgrad.core.scopes import named_scope as named_scope
from fgrad.names import offered as _offered
from fgrad.viz.drawing import Drawing as Drawing
from fgrad.viz.drawing import draw as draw
from fgrad.viz.drawing import take_notes as take_notes
from fgrad.viz.profiling import Profile as Profile
from fgrad.viz.profiling import profile as profile


def __dir__() -> list[str]:
    return _offered(globals())
