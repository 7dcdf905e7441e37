"""How much a service takes on: whoever sends pictures must not choose it."""

import os
from dataclasses import dataclass, fields

from oddone.errors import SettingsError, check_numbers

MEBIBYTE = 2**20


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """The limits of a service; what exceeds one is refused with a reason."""

    file_bytes: int = 20 * MEBIBYTE
    """Bytes of one picture (413)."""
    request_bytes: int = 64 * MEBIBYTE
    """Bytes of a request (413)."""
    files: int = 64
    """Pictures in one request (413)."""
    pixels: int = 50_000_000
    """Pixels of one picture, by its header; beyond, it has a reason and no verdict."""
    queue_images: int = 256
    """Pictures that are worked on or wait, of all requests together (429)."""
    queue_seconds: float = 5.0
    """How long what waits may take, by how fast it went before; then others are refused (429)."""
    queue_bytes: int = 256 * MEBIBYTE
    """Bytes of all requests that are read or worked on (429)."""
    answer_seconds: float = 30.0
    """How long a request may take once it is read (503)."""
    upload_seconds: float = 30.0
    """How long a client may take to send a request (408)."""
    header_seconds: float = 10.0
    """How long a client may take to begin one; then it is hung up on."""
    fetch_seconds: float = 10.0
    """How long the pictures of a request may take to come from their URLs; those that are not there
    then have a reason and no verdict."""
    decode_seconds: float = 10.0
    """How long one picture may be decoded; then its process is ended."""
    decode_bytes: int = 1024 * MEBIBYTE
    """Memory for decoding one picture."""
    decoders: int = 0
    """How many processes decode pictures side by side; 0 stands for as many as there are cores."""
    batch_milliseconds: float = 4.0
    """How long a picture waits for others that share its forward pass."""
    watch_seconds: float = 2.0
    """How often is looked whether a detector's file has changed."""

    def __post_init__(self) -> None:
        check_numbers(self)
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "decoders" and value < 1e-3:
                raise SettingsError(f"{field.name}={value:g}: choose a number above 0")
        if self.decoders < 0:
            raise SettingsError(f"decoders={self.decoders}: choose 0 for one per core, or more")
        if self.file_bytes > self.request_bytes:
            raise SettingsError(
                f"file_bytes={self.file_bytes:,} exceeds request_bytes={self.request_bytes:,}; "
                f"raise request_bytes"
            )
        if self.request_bytes > self.queue_bytes or self.files > self.queue_images:
            raise SettingsError(
                f"one request may take {self.request_bytes:,} bytes and {self.files} files, all "
                f"together {self.queue_bytes:,} and {self.queue_images}; raise queue_bytes and "
                f"queue_images"
            )

    @property
    def decoder_processes(self) -> int:
        """How many processes decode pictures."""
        return self.decoders or os.cpu_count() or 1
