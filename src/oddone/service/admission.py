"""Who may come in: what is worked on and waits, counted in images and in bytes."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from oddone.service.problems import busy
from oddone.service.settings import ServiceSettings

LONGEST_RETRY = 60  # seconds
REMEMBERED = 64
"""Images by which is told how fast they go; a batch of them leaves at a time."""
FIRST_GUESS = 0.05  # seconds for each


class Admission:
    """Counts the images and bytes of all requests, and refuses what would be too many."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self.images = 0
        self.bytes = 0
        self._busy_seconds, self._done = FIRST_GUESS * REMEMBERED, float(REMEMBERED)
        """How long it took until so many images had left, the last of them counting most."""
        self._left_at = time.monotonic()

    @property
    def _seconds_per_image(self) -> float:
        return self._busy_seconds / self._done

    @contextmanager
    def request(self, n_bytes: int, images: int = 1) -> Iterator["AdmittedRequest"]:
        """Hold so many bytes and images; more images are asked for when they are known."""
        admitted = AdmittedRequest(self)
        try:
            admitted.add_bytes(n_bytes)
            admitted.add_images(images)
            yield admitted
            self._time(admitted.images)  # what is refused says nothing of how long images take
        finally:
            self.bytes -= admitted.bytes
            self.images -= admitted.images

    def check(self, images: int) -> None:
        """Refuse so many more images if they are too many, or if too much waits before them."""
        most = self._settings.queue_images
        if self.images + images > most:
            detail = f"{self.images} images wait, and {images} more would exceed {most}"
            raise busy("queue-full", detail, self._seconds_to_wait())
        if self.images * self._seconds_per_image > self._settings.queue_seconds:
            detail = f"the {self.images} images that wait take too long already"
            raise busy("queue-full", detail, self._seconds_to_wait())

    def take_bytes(self, n_bytes: int) -> None:
        """Count so many more bytes, or refuse them."""
        if self.bytes + n_bytes > self._settings.queue_bytes:
            raise busy("queue-full", "too many bytes are waiting", self._seconds_to_wait())
        self.bytes += n_bytes

    def take(self, images: int) -> None:
        """Count so many more images, or refuse them."""
        if images == 0:
            return
        self.check(images)
        if self.images == 0:
            self._left_at = time.monotonic()
        self.images += images

    def _time(self, images: int) -> None:
        """Note that so many images have their answers."""
        if images == 0:
            return
        now, kept = time.monotonic(), (1 - 1 / REMEMBERED) ** images
        self._busy_seconds = kept * self._busy_seconds + now - self._left_at
        self._done = kept * self._done + images
        self._left_at = now

    def _seconds_to_wait(self) -> int:
        """Return when half of what waits should be done."""
        seconds = math.ceil(self._seconds_per_image * self.images / 2)
        return min(max(1, seconds), LONGEST_RETRY)


class AdmittedRequest:
    """What one request holds."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self.images = 0
        self.bytes = 0

    def add_bytes(self, n_bytes: int) -> None:
        """Hold so many more bytes."""
        self._admission.take_bytes(n_bytes)
        self.bytes += n_bytes

    def add_images(self, images: int) -> None:
        """Hold so many more images."""
        self._admission.take(images)
        self.images += images
