"""Passes over programs whose loops and branches are plain ones."""
