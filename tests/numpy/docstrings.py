"""What a docstring of the reference has, and whether its examples run."""

from __future__ import annotations
