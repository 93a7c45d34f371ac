import pytest
from sklearn.linear_model import LogisticRegression

from leakscope.defences.dp_sgd import DpSgd
from leakscope.defences.registry import resolve_defence, strengths_of
from leakscope.errors import InputError
from leakscope.recipe import EstimatorRecipe, Recipe
from tests.train.problems import class_records, image_records

RECORDS = class_records()


def test_it_trains_with_dp_sgd_and_with_steps_that_suit_it():
    defended = DpSgd(epsilon=2.0, clip=0.5).recipe(Recipe(optimizer="sgd", momentum=0.9, epochs=7), RECORDS)
    assert isinstance(defended, Recipe)
    assert defended.privacy is not None
    assert (defended.privacy.epsilon, defended.privacy.clip) == (2.0, 0.5)
    assert (defended.optimizer, defended.lr, defended.batch_size) == ("adam", 0.02, 256)
    assert defended.epochs == 7


@pytest.mark.parametrize(
    ("recipe", "records", "why"),
    [
        (Recipe(), RECORDS, None),
        (Recipe(net="cnn", net_options=(("norm", "group"),)), image_records(), None),
        (Recipe(net="cnn"), image_records(), 'set norm = "group"'),
        (Recipe(sam_rho=0.1), RECORDS, "privacy and sam_rho exclude each other"),
        (EstimatorRecipe(LogisticRegression()), RECORDS, "acts on the training loop of a network"),
    ],
)
def test_it_says_where_it_cannot_protect(recipe, records, why):
    found = DpSgd().why_not(recipe, records)
    assert found is None if why is None else why in found


def test_it_is_registered_with_three_strengths():
    assert [defence.epsilon for defence in strengths_of("dp_sgd")] == [50.0, 8.0, 1.0]
    assert resolve_defence("dp_sgd(epsilon=3, batch_size=64)") == DpSgd(epsilon=3.0, batch_size=64)
    with pytest.raises(InputError, match="epsilon"):
        DpSgd(epsilon=-1.0).recipe(Recipe(), RECORDS)
