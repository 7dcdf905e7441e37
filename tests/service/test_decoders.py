"""Pictures are decoded in processes that may die, hang or ask for memory without harm."""

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from oddone.data.decode import decode
from oddone.service.decoders import DecoderPool, DecoderProcess
from oddone.service.settings import ServiceSettings

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX's limits")


@pytest.fixture(scope="module")
def process() -> Iterator[DecoderProcess]:
    started = DecoderProcess(ServiceSettings())
    yield started
    started.end()


def test_an_image_is_the_one_that_decode_gives(
    process: DecoderProcess, pictures: dict[str, bytes]
) -> None:
    for content in pictures.values():
        decoded = process.decode(content, 12)
        assert isinstance(decoded, np.ndarray)
        assert (decoded == decode(content, 12)).all()
    assert process.decode(b"", 12) == "empty file"
    assert process.replaced == 0


def test_a_process_that_ends_is_replaced_and_its_picture_has_a_reason(
    pictures: dict[str, bytes],
) -> None:
    process = DecoderProcess(ServiceSettings())
    try:
        process._process.send_signal(signal.SIGSTOP)  # so that it ends while it decodes
        process._process.send_signal(signal.SIGSEGV)
        process._process.send_signal(signal.SIGCONT)
        reason = process.decode(pictures["0.png"], 16)
        assert reason == "the decoder has ended while it read this"
        assert isinstance(process.decode(pictures["0.png"], 16), np.ndarray)
        assert process.replaced == 1
    finally:
        process.end()


def test_a_picture_that_takes_too_long_is_given_up(pictures: dict[str, bytes]) -> None:
    process = DecoderProcess(ServiceSettings(decode_seconds=0.3))
    try:
        process._process.send_signal(signal.SIGSTOP)
        assert process.decode(pictures["0.png"], 16) == "it takes over 0.3 s to decode"
    finally:
        process.end()


def test_a_process_has_little_memory_and_may_write_nothing(
    run_python: Callable[[str], str], tmp_path: Path
) -> None:
    printed = run_python(
        f"""
        import signal, sys
        from oddone.service.decoder_process import limit_process
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        limit_process(2**26)
        tried = []
        try:
            bytearray(2**28)
        except MemoryError:
            tried.append("no memory")
        try:
            with open("{tmp_path}/file", "w") as file:
                file.write("x")
        except OSError:
            tried.append("no file")
        print(tried)
        """
    )
    assert printed == "['no memory', 'no file']"


def test_a_pool_decodes_side_by_side(pictures: dict[str, bytes]) -> None:
    pool = DecoderPool(ServiceSettings(decoders=2))

    async def decode_all() -> list[object]:
        return await asyncio.gather(*(pool.decode(each, 16) for each in pictures.values()))

    try:
        images = asyncio.run(decode_all())
        assert [image.shape for image in images] == [(3, 16, 16)] * 8  # type: ignore[attr-defined]
        assert pool.replaced == 0
    finally:
        pool.close()
