"""What fgrad knows of NumPy beyond its documentation, and what it does where that is another way."""

import numpy as np
import pytest

from fgrad.compat import numpy as compat


@pytest.mark.parametrize(
    "ways", [(compat.setting, compat.silence, compat.restore), compat.documented_ways], ids=["found", "plain"]
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
