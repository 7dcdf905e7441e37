"""What oddone raises and warns about when the input, not the program, is wrong.

    OddOneError (ValueError)
    ├── SettingsError    the settings contradict each other or the call
    ├── DataError        the data cannot support what was asked
    ├── ArtifactError    a file is no detector that can be trusted
    └── DivergedError    training has left the numbers; earlier checkpoints are good

    SettingsWarning (UserWarning)    legal settings that the paper advises against
    DataWarning (UserWarning)        data that support what was asked, but barely

Every message names the thing, the number and the fix.
"""


class OddOneError(ValueError):
    """Something the caller can fix; the message says how."""


class SettingsError(OddOneError):
    """The settings contradict each other or the call; the message says which to change."""


class DataError(OddOneError):
    """The data cannot support what was asked; the message says what to add or drop."""


class ArtifactError(OddOneError):
    """The file is no detector, or not a whole, unaltered one; the message says which."""


class DivergedError(OddOneError):
    """The loss is no longer a number; the message says at which step and what to change."""


class SettingsWarning(UserWarning):
    """The settings are legal, but outside what the paper's analysis covers."""


class DataWarning(UserWarning):
    """The data support what was asked, but barely; the message says how much more would do."""
