"""Integrals and initial value problems."""
