"""Pictures of strangers become images in processes of their own, which may die of them."""

import asyncio
import os
import queue
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import IO

import numpy as np
from jaxtyping import UInt8

from oddone.service.decoder_process import ANSWER, IMAGE, REQUEST
from oddone.service.settings import ServiceSettings

LONGEST_REASON = 2000
_PASSED_ON = ("PATH", "LANG", "LC_", "PYTHON", "COV", "SYSTEMROOT", "TMP", "TEMP")
"""How the names of the variables begin that a decoder gets; a token is not among them."""


class DecoderPool:
    """Some processes that decode pictures; one that ends is replaced."""

    def __init__(self, settings: ServiceSettings) -> None:
        processes = [DecoderProcess(settings) for _ in range(settings.decoder_processes)]
        self._processes = processes
        self._idle: queue.SimpleQueue[DecoderProcess] = queue.SimpleQueue()
        for process in processes:
            self._idle.put(process)
        self._threads = ThreadPoolExecutor(len(processes), "decoder")

    @property
    def replaced(self) -> int:
        """How many processes have ended and were replaced."""
        return sum(process.replaced for process in self._processes)

    async def decode(self, content: bytes, size: int) -> UInt8[np.ndarray, "3 size size"] | str:
        """Return the image in a picture file as `oddone.data.decode` does, or why there is none."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._decode, content, size)

    def _decode(self, content: bytes, size: int) -> UInt8[np.ndarray, "3 size size"] | str:
        process = self._idle.get()
        try:
            return process.decode(content, size)
        finally:
            self._idle.put(process)

    def close(self) -> None:
        """End all processes; pictures that still wait are not decoded."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        for process in self._processes:
            process.end()


class DecoderProcess:
    """A process that decodes one picture at a time; used by one thread at a time."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._process = _start(settings)
        self.replaced = 0

    def decode(self, content: bytes, size: int) -> UInt8[np.ndarray, "3 size size"] | str:
        """Return the image, or the reason why there is none, the end of the process included."""
        seconds = self._settings.decode_seconds
        asked, answers = _pipes(self._process)
        late = threading.Timer(seconds, self._process.kill)
        late.start()
        try:
            asked.write(REQUEST.pack(len(content), size))
            asked.write(content)
            asked.flush()
            return _read_answer(answers, size)
        except (EOFError, OSError):
            was_late = late.finished.is_set()
            self._replace()
            if was_late:
                return f"it takes over {seconds:g} s to decode"
            return "the decoder has ended while it read this"
        finally:
            late.cancel()

    def _replace(self) -> None:
        self.end()
        self._process = _start(self._settings)
        self.replaced += 1

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        for pipe in _pipes(self._process):
            try:
                pipe.close()
            except OSError:  # what was to be written can no longer be
                continue
        self._process.wait()


def _start(settings: ServiceSettings) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-P", "-m", "oddone.service.decoder_process"]
    return subprocess.Popen(  # noqa: S603  (our own module)
        [*command, str(settings.decode_bytes), str(settings.pixels)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)}
        | {"OMP_NUM_THREADS": "1"},
        start_new_session=True,  # Ctrl-C is for the service, which finishes what it has
    )


def _pipes(process: "subprocess.Popen[bytes]") -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None  # noqa: S101  (opened by _start)
    assert process.stdout is not None  # noqa: S101
    return process.stdin, process.stdout


def _read_answer(answers: IO[bytes], size: int) -> UInt8[np.ndarray, "3 size size"] | str:
    """Return what the process says; what it could not have said by itself is an EOFError."""
    head = answers.read(ANSWER.size)
    if len(head) < ANSWER.size:
        raise EOFError
    kind, length = ANSWER.unpack(head)
    if length > max(LONGEST_REASON, 3 * size * size):
        raise EOFError
    content = answers.read(length)
    if len(content) < length or (kind == IMAGE and length != 3 * size * size):
        raise EOFError
    if kind == IMAGE:
        return np.frombuffer(content, np.uint8).reshape(3, size, size)
    return content.decode(errors="replace")
