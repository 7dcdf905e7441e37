import numpy as np
import torch

from oddone.rng import stream


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


def test_integers_of_numpy_name_the_streams_that_those_of_python_do(as_shipped: None) -> None:
    (step,) = np.arange(7, 8)
    found = torch.rand(3, generator=stream(np.int64(3), "augment", step))  # type: ignore[arg-type]
    assert found.tolist() == numbers("augment", 7, seed=3)


def test_making_a_stream_leaves_the_global_one_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    stream(5, "augment")
    assert torch.equal(torch.rand(2), expected)
