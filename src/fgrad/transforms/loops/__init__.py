"""Derivatives and batches of loops and branches, as plain loops and branches."""
