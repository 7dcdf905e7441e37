from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from oddone.rng import drawing_from, stream


def numbers(*name: str | int, seed: int = 0) -> list[float]:
    return torch.rand(3, generator=stream(seed, *name)).tolist()


def test_a_stream_depends_on_seed_and_name_alone() -> None:
    assert numbers("augment", 7) == numbers("augment", 7)


def test_streams_of_other_names_steps_and_seeds_differ() -> None:
    streams = [
        numbers("augment", 7),
        numbers("augment", 8),
        numbers("poses", 7),
        numbers("augment", 7, seed=1),
        numbers("augment", "7"),
        numbers("augment7"),
    ]
    assert len({tuple(each) for each in streams}) == len(streams)


@pytest.mark.usefixtures("as_shipped")
def test_integers_of_numpy_name_the_streams_that_those_of_python_do() -> None:
    (step,) = np.arange(7, 8)
    found = torch.rand(3, generator=stream(np.int64(3), "augment", step))  # type: ignore[arg-type]
    assert found.tolist() == numbers("augment", 7, seed=3)


def test_making_a_stream_leaves_the_global_one_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    stream(5, "augment")
    assert torch.equal(torch.rand(2), expected)


def test_what_torch_draws_meanwhile_follows_from_the_stream_and_leaves_no_trace() -> None:
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    with drawing_from(stream(0, "dropout")) as has_drawn:
        assert not has_drawn()
        drawn = torch.rand(2)
        assert has_drawn()
    with drawing_from(stream(0, "dropout")):
        assert torch.equal(torch.rand(2), drawn)
    assert torch.equal(torch.rand(2), expected)


def test_threads_that_draw_from_streams_take_turns() -> None:
    def draw(seed: int) -> list[float]:
        with drawing_from(stream(seed, "weights")):
            return [torch.rand(1).item() for _ in range(200)]

    expected = [draw(seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as workers:
        assert list(workers.map(draw, range(8))) == expected
