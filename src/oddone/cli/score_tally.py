"""What is counted of the rows of `oddone score`, and the sentence about it at the end."""

from collections.abc import Sequence
from dataclasses import dataclass

from oddone.cli.score_table import Row
from oddone.cli.terminal import counted
from oddone.errors import DataError


@dataclass
class Tally:
    """What is counted of the rows as they pass."""

    images: int = 0
    anomalous: int = 0
    unreadable: int = 0
    first_unreadable: Row | None = None

    def add(self, row: Row) -> None:
        self.images += 1
        self.anomalous += row["anomalous"] is True
        if row["reason"] is not None:
            self.unreadable += 1
            self.first_unreadable = self.first_unreadable or row

    def describe(
        self, seconds: float, threshold: float | None, thresholds: Sequence[float] | None
    ) -> str:
        """Return a summary of all rows; thresholds are those of the classes."""
        found = [f"{self.unreadable:,} unreadable"]
        if threshold is not None:
            by_class = any(each != threshold for each in thresholds or ())
            limit = "the threshold of the class" if by_class else f"{threshold:.4g}"
            found = [f"{self.anomalous:,} anomalous (score above {limit})", *found]
        return (
            f"{counted(self.images, 'image', 'images')} in {seconds:.1f} s "
            f"({self.images / max(seconds, 1e-9):,.0f} images/s): {', '.join(found)}"
        )

    def check(self) -> None:
        """Raise a DataError if not a single image could be read."""
        if self.images == 0:
            raise DataError("there is nothing to score; let stdin name pictures, or their folders")
        if self.unreadable == self.images:
            row = self.first_unreadable
            first = "" if row is None else f" ({row['path']}: {row['reason']})"
            raise DataError(
                f"none of the {counted(self.images, 'file', 'files')} can be read{first}; the rows "
                f"say why"
            )
