"""The command `boltzkit`: one verb per file, thin. Verbs import what is heavy only when they run."""

from boltzkit.cli.app import app, main

__all__ = ["app", "main"]
