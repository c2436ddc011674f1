"""Attacks that need many processes: tools for the command line, of which the suite runs a little."""
