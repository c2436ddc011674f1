"""Rewriting programs: effects, dead code, liveness, substitution, and cuts, once for all that rewrite."""
