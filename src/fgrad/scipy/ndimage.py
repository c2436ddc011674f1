"""Interpolation and filters of images of any dimension."""
