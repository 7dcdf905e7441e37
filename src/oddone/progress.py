"""How long work tells how far it is."""

from collections.abc import Callable

Progress = Callable[[int, int, str], None]
"""Called with how many are done, of how many, and a description of what is being done."""


def silent(_done: int, _total: int, _description: str) -> None:
    """Show no progress."""


def described(progress: Progress | None, description: str) -> Progress | None:
    """Return the same progress under another description; None where nobody wants to know."""
    if progress is None:
        return None
    return lambda done, total, _: progress(done, total, description)
