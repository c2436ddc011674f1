"""Devices: one small interface to each, and to the library that computes on it."""
