"""`oddone report` on records of benches."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from oddone.bench import Record, write_record
from records import made_up_record, with_classes

Run = Callable[..., tuple[int, str, str]]


def page_of(run_oddone: Run, folder: Path, *records: Record) -> str:
    """Return the page on records that lie in the folder."""
    paths = [str(write_record(folder, record)) for record in records]
    code, printed, complained = run_oddone("report", *paths, "--out", str(folder / "report.html"))
    assert (code, complained) == (0, "")
    assert f"the page is {folder / 'report.html'}" in printed
    return (folder / "report.html").read_text()


def test_a_record_becomes_a_page(run_oddone: Run, tmp_path: Path) -> None:
    page = page_of(run_oddone, tmp_path, made_up_record())
    assert (
        "<strong>paper-sei</strong> compares 9 methods at the scale cpu, trained on 50,000 images "
        "of 10 classes. Best by mean AUROC is MCL + 8-way SEI · w-avg as printed with 58.0%: "
        "CIFAR-100 58.0%, textures 58.0%. It names 68.0% of 1,000 test images correctly."
    ) in page
    assert '50.00<small class="worse">▼ 91.12</small>' in page
    assert "<strong>58.00</strong>" in page
    assert "Ways to fuse the views of Self-Ensemble Inference, in percent." in page
    assert "Left out: SVHN: no such images were given." in page
    assert "SimCLR, fine-tuned</td>" in page
    assert "<dd>2 threads of Abacus, Linux</dd>" in page
    assert "<dd>oddone 0.1.0, torch 2.13.0</dd>" in page
    assert page.count("<img ") == 1


def test_the_best_row_is_called_as_a_sentence_has_it(run_oddone: Run, tmp_path: Path) -> None:
    record = made_up_record("paper-aux")
    (bare,) = (row for row in record.rows if row.names == ("MCL + w/o Aux", "-"))
    page = page_of(run_oddone, tmp_path, replace(record, rows=(bare,)))
    assert "Best by mean AUROC is MCL + w/o Aux with " in page
    page = page_of(run_oddone, tmp_path, made_up_record("scaling"))
    assert re.search(r"Best by mean AUROC is preset cpu after \d+ minutes with ", page)


def test_names_in_a_record_are_no_markup(run_oddone: Run, tmp_path: Path) -> None:
    record = made_up_record()
    row = replace(record.rows[0], names=("<script>", "{{ 7 * 7 }}"))
    models = tuple(replace(model, name="<script>") for model in record.models)
    page = page_of(run_oddone, tmp_path, replace(record, rows=(row,), models=models))
    assert "<script>" not in page
    assert "&lt;script&gt;<small>{{ 7 * 7 }}</small>" in page


def test_networks_beside_the_record_show_how_they_were_trained(
    run_oddone: Run, tmp_path: Path
) -> None:
    line = {"step": 1, "loss": 3.5, "terms": {}, "learning_rate": 0.1}
    for key in ("key-of-tuned", "of-another-table"):
        (tmp_path / "models" / key).mkdir(parents=True)
        (tmp_path / "models" / key / "history.jsonl").write_text(json.dumps(line) + "\n")
    page = page_of(run_oddone, tmp_path, made_up_record())
    assert 'alt="Losses of SimCLR, fine-tuned"' in page
    assert page.count("<img ") == 2


def test_a_key_does_not_lead_out_of_the_folder(run_oddone: Run, tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "history.jsonl").write_text('{"step": 1, "loss": 3.5, "terms": {}}\n')
    record = made_up_record()
    models = tuple(replace(model, key="../..") for model in record.models)
    page = page_of(run_oddone, tmp_path / "bench", replace(record, models=models))
    assert page.count("<img ") == 1


def test_several_records_share_a_page_and_each_figure_is_a_file(
    run_oddone: Run, tmp_path: Path
) -> None:
    records = [made_up_record("paper-main", "svhn", seeds=3), made_up_record("paper-mcl-metrics")]
    paths = [str(write_record(tmp_path, record)) for record in records]
    out, figures = tmp_path / "report.html", tmp_path / "figures"
    code, printed, _ = run_oddone("report", *paths, "--out", str(out), "--figures", str(figures))
    assert code == 0
    assert f"the figures are in {figures}" in printed
    names = {path.name for path in figures.iterdir()}
    assert names == {f"comparison-{place}.{ending}" for place in "12" for ending in ("svg", "png")}
    page = out.read_text()
    assert "<h1>Report on paper-main and paper-mcl-metrics</h1>" in page
    assert "65.0 ± 5.0<small" in page


def test_two_records_of_one_table_are_called_by_their_files(
    run_oddone: Run, tmp_path: Path
) -> None:
    later = replace(made_up_record(), date="2026-11-17T01:02:03+00:00")
    page = page_of(run_oddone, tmp_path, made_up_record(), later)
    names = [f"2026-11-{day}-010203-bench-paper-sei-cpu.json" for day in (16, 17)]
    assert f"<h1>Report on {tmp_path / names[0]} and {tmp_path / names[1]}</h1>" in page


def test_other_classes_than_the_papers_are_shown_without_it(
    run_oddone: Run, tmp_path: Path
) -> None:
    record = with_classes(made_up_record("openood", "svhn"), "sock", "shoe")
    rows = tuple(
        replace(row, results=tuple(replace(result, accuracy=None) for result in row.results))
        for row in record.rows
    )
    page = page_of(run_oddone, tmp_path, replace(record, rows=rows))
    assert (
        "images of 2 classes. Best by mean AUROC is MCL + SEI with 62.0%: SVHN 62.0%.</p>" in page
    )
    assert "the paper" not in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("good.json run", "run is no record (.json) as the others are; report on records and on"),
        ("d.oddone good.json --test t", "d.oddone is no record (.json) as the others are"),
        ("good.json --test t", "--test is for detectors, and a record holds its numbers already"),
        ("good.json --ood a=b", "--ood is for detectors, and a record holds its numbers already"),
        ("good.json --pictures .", "--pictures is for detectors, and a record holds its numbers"),
        ("good.json good.json", "good.json, good.json: name each only once"),
        ("bad.json", "bad.json is a damaged record: Object missing required field `scale`"),
        ("list.json", "list.json is no record of oddone bench; name a file that it has written"),
        ("text.json", "text.json is no JSON, so no record of oddone bench"),
        ("nowhere.json", "nowhere.json cannot be read: No such file"),
        ("run", "a detector is reported on by test images of its classes; name them with --test"),
    ],
)
def test_mistakes_with_records_are_told_in_one_line(
    run_oddone: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run").mkdir()
    write_record(tmp_path, made_up_record()).rename("good.json")
    Path("bad.json").write_text('{"kind": "oddone bench", "format": 2, "table": "paper-sei"}')
    Path("list.json").write_text("[1, 2]")
    Path("text.json").write_text("text")
    code, _, complained = run_oddone("report", *words.split(), "--out", "report.html")
    assert code == 2
    assert message in complained
    assert complained.count("\n") == 1
    assert not Path("report.html").exists()
