"""How long work tells how far it is."""

from collections.abc import Callable

Progress = Callable[[int, int, str], None]
"""Called with how many are done, of how many, and a description of what is being done."""


def silent(_done: int, _total: int, _description: str) -> None:
    """Show no progress."""
