"""The headers that CuPy brings along, and what happens where they are other ones."""

import types

import pytest

from fgrad.compat import cupy as compat


@pytest.fixture
def library(tmp_path):
    folder = tmp_path / "_core" / "include" / "cupy" / "xsf"
    (folder / "cephes").mkdir(parents=True)
    (folder / "config.h").write_text("")
    (folder / "struve.h").write_text('#pragma once\n#include "config.h"\n#include "cephes/struve.h"\nhere\n')
    (folder / "cephes" / "struve.h").write_text('#include "dd_real.h"\n#include "../config.h"\n')
    (folder / "cephes" / "dd_real.h").write_text("  explicit double_double(double x) {}\n")
    return types.SimpleNamespace(__file__=str(tmp_path / "__init__.py"))


def test_what_leads_to_double_double_numbers_is_spelled_out(library):
    found = compat.struve(compat.headers(library))
    assert found.split("\n") == [
        "",
        "#include <cupy/xsf/config.h>",
        "  constexpr explicit double_double(double x) {}",
        "",
        "#include <cupy/xsf/config.h>",
        "",
        "here",
        "",
    ]


@pytest.mark.parametrize("name", ["config.h", "struve.h", "cephes/struve.h", "cephes/dd_real.h"])
def test_other_headers_are_told(library, name):
    file = compat.headers(library) / name
    file.unlink()
    with pytest.raises(NotImplementedError, match="other headers of special functions"):
        compat.struve(compat.headers(library))


def test_another_class_of_numbers_is_told(library):
    file = compat.headers(library) / "cephes" / "dd_real.h"
    file.write_text("double_double2(double x)")
    with pytest.raises(NotImplementedError, match="other headers of special functions"):
        compat.struve(compat.headers(library))
