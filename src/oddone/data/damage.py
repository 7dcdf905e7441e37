"""What readers of foreign formats say to whoever called them, before it becomes a sentence."""


class DamageError(Exception):
    """The content is none of the format, or not a whole one; the message says why."""
