"""The networks that the tables compare."""

from dataclasses import replace

import pytest
from benches import toy_scale

from oddone.bench import Scale, cpu_scale, paper_scale, recipes
from oddone.bench.recipes import Plan, Recipe, plan
from oddone.bench.tables import TABLES
from oddone.errors import SettingsError
from oddone.presets import cpu, paper_classifier
from oddone.training import TrainSettings
from oddone.transforms import AugmentSettings

ALL = sorted({row.recipe for table in TABLES.values() for row in table.rows}, key=repr)


def minutes(planned: Plan) -> float:
    """Return how long a row is trained, what it is fine-tuned from included."""
    assert planned.settings.minutes is not None
    return planned.settings.minutes + (0 if planned.start is None else minutes(planned.start))


@pytest.mark.parametrize("recipe", ALL, ids=lambda recipe: recipe.name)
def test_at_the_cpu_scale_every_row_has_equal_minutes_in_total(recipe: Recipe) -> None:
    assert minutes(plan(recipe, cpu_scale(7.0), seed=0)) == pytest.approx(7)


@pytest.mark.parametrize(
    "recipe",
    [recipe for recipe in ALL if recipe != recipes.DEFAULT],
    ids=lambda recipe: recipe.name,
)
@pytest.mark.parametrize(
    "scale", [paper_scale(), cpu_scale(1.0), toy_scale()], ids=lambda s: s.name
)
def test_no_image_is_held_out_and_the_seed_is_that_asked_for(recipe: Recipe, scale: object) -> None:
    planned = plan(recipe, scale, seed=5)  # type: ignore[arg-type]
    for each in (planned, planned.start):
        if each is not None:
            assert each.settings.held_out == 0
            assert each.settings.seed == 5


def test_the_default_preset_is_trained_as_its_users_train_it() -> None:
    settings = plan(recipes.DEFAULT, cpu_scale(3.0), seed=5).settings
    assert settings == replace(cpu(), minutes=3.0, seed=5, device="cpu")


def test_mcl_at_the_paper_scale_is_the_paper_preset() -> None:
    assert plan(recipes.MCL, paper_scale(), 0).settings == TrainSettings(epochs=400.0, held_out=0.0)


CONTRASTS = [recipe for recipe in ALL if recipe.method == "mcl" and recipe.start is None]


@pytest.mark.parametrize("recipe", CONTRASTS, ids=lambda recipe: recipe.name)
def test_steps_at_the_paper_scale_have_1024_posed_images_and_are_equally_many(
    recipe: Recipe,
) -> None:
    settings = plan(recipe, paper_scale(), 0).settings
    assert settings.batch.images * settings.poses_per_image == 1024
    assert settings.epochs is not None
    assert settings.epochs / settings.batch.images == 400 / 256


@pytest.mark.parametrize("scale", [paper_scale(), cpu_scale(2.0)], ids=["paper", "cpu"])
def test_simclr_has_its_own_augmentation_at_both_scales(scale: Scale) -> None:
    alone, joint = (plan(each, scale, 0) for each in (recipes.SIMCLR, recipes.SIMCLR_JOINT))
    assert joint.start is not None
    planned = (alone, joint, joint.start)
    assert [each.settings.augment for each in planned] == [AugmentSettings()] * 3


def test_csi_sees_all_poses_alike_at_the_paper_scale() -> None:
    assert plan(recipes.CSI, paper_scale(), 0).settings.batch.upright_share == 0.25


def test_fine_tuning_at_the_paper_scale_is_that_of_the_appendix() -> None:
    planned = plan(recipes.SIMCLR_JOINT, paper_scale(), 0)
    settings = planned.settings
    assert (settings.objective, settings.simclr_weight) == ("joint", 0.1)
    assert (settings.epochs, settings.batch.images) == (100, 512)
    assert settings.optimiser.learning_rate == 0.2
    assert planned.start is not None
    assert planned.start.settings.objective == "simclr"


@pytest.mark.parametrize(
    ("scale", "preset"),
    [
        (paper_scale(), paper_classifier()),
        (cpu_scale(10.0), replace(cpu(), held_out=0.0, device="cpu")),
    ],
    ids=["paper", "cpu"],
)
def test_cross_entropy_is_trained_by_its_own_recipe(scale: Scale, preset: TrainSettings) -> None:
    assert plan(recipes.CROSS_ENTROPY, scale, 0).settings == preset
    with_poses = plan(recipes.ROTATION, scale, 0).settings
    assert with_poses == replace(preset, rotations="task")
    exposed = plan(recipes.OUTLIER_EXPOSURE, scale, 0)
    assert (exposed.settings, exposed.outliers) == (preset, True)


def test_supclr_and_csi_at_the_paper_scale_are_their_authors() -> None:
    supclr, csi = (
        plan(recipe, paper_scale(), 0).settings for recipe in (recipes.SUPCLR, recipes.CSI)
    )
    assert (supclr.objective, supclr.rotations, supclr.loss.temperature) == ("supclr", "none", 0.1)
    assert (supclr.epochs, supclr.batch.images * supclr.poses_per_image) == (1000, 1024)
    assert (supclr.optimiser.learning_rate, supclr.optimiser.weight_decay) == (0.5, 1e-4)
    assert supclr.augment.crop_scale == (0.2, 1.0)
    assert (csi.objective, csi.rotations, csi.loss.temperature) == ("supclr", "task", 0.5)
    assert (csi.epochs, csi.batch.images * csi.poses_per_image) == (700, 512)
    assert (csi.optimiser.learning_rate, csi.optimiser.weight_decay) == (0.6, 1e-6)


@pytest.mark.parametrize("recipe", [recipes.SUPCLR, recipes.CSI], ids=lambda recipe: recipe.name)
def test_at_the_cpu_scale_only_the_loss_of_supclr_and_csi_is_not_that_of_mcl(
    recipe: Recipe,
) -> None:
    settings, of_mcl = (plan(each, cpu_scale(2.0), 0).settings for each in (recipe, recipes.MCL))
    large = plan(recipe, paper_scale(), 0).settings
    assert settings.optimiser != large.optimiser
    assert settings.augment != large.augment
    assert settings.loss == replace(large.loss, temperature=0.2)
    own = replace(of_mcl, objective="supclr", loss=settings.loss, rotations=large.rotations)
    assert settings == own


def test_only_the_small_networks_are_resnet_18() -> None:
    encoders = {
        recipe: plan(recipe, paper_scale(), 0).settings.model.encoder_name for recipe in ALL
    }
    assert {recipe for recipe, encoder in encoders.items() if encoder == "resnet18"} == {
        recipes.SUPCLR_SMALL,
        recipes.CSI_SMALL,
        recipes.MCL_SMALL,
    }
    assert set(encoders.values()) == {"resnet18", "resnet34"}


def test_ablations_leave_out_what_they_say() -> None:
    def settings(recipe: Recipe) -> TrainSettings:
        return plan(recipe, paper_scale(), 0).settings

    assert settings(recipes.MCL_WITHOUT_SPA).loss.spa_weight == 0
    assert settings(recipes.MCL_WITHOUT_SPA).rotations == "none"
    assert settings(recipes.MCL_WITHOUT_TASK).loss.spa_weight == 1
    assert settings(recipes.MCL_WITHOUT_TASK).rotations == "none"
    assert settings(recipes.MCL_AUGMENTED).rotations == "augmentation"
    assert settings(recipes.CSI).rotations == "task"
    assert settings(recipes.SUPCLR).rotations == "none"


def test_a_length_without_time_is_refused() -> None:
    with pytest.raises(SettingsError, match="minutes=0.0: choose a positive number"):
        cpu_scale(0.0)
