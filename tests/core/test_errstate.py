"""NumPy's warnings off and on again."""

import numpy as np
import pytest

from fgrad.core import errstate


@pytest.mark.parametrize(
    "ways", [(errstate.setting, errstate.silence, errstate.restore), errstate.plainly], ids=["found", "plain"]
)
def test_warnings_are_off_between_and_as_before_afterwards(ways):
    setting, off, on = ways
    with np.errstate(divide="raise"):
        before = setting()
        off()
        try:
            assert np.divide(1.0, np.zeros(1)) == np.inf
            assert set(np.geterr().values()) == {"ignore"}
        finally:
            on(before)
        with pytest.raises(FloatingPointError):
            np.divide(1.0, np.zeros(1))


def test_numpy_keeps_the_setting_where_it_is_looked_for():
    assert errstate.silence is not errstate.plainly.silence
