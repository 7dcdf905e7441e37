"""All tables of toy size, filled once for all tests."""

import pytest
from benches import TOY_TABLES, Counting, Toys, toy_bench, toy_record


@pytest.fixture(scope="session")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Toys:
    train = Counting()
    bench = toy_bench(tmp_path_factory.mktemp("bench"), train)
    return Toys(bench, train, {name: toy_record(bench, name) for name in TOY_TABLES})
