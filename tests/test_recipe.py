import json
from dataclasses import asdict
from math import cos, pi

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from leakscope.code_identity.walk import code_identity
from leakscope.errors import InputError
from leakscope.privacy.settings import Privacy
from leakscope.recipe import Distillation, EstimatorRecipe, Recipe, Treatment


def test_all_problems_are_reported_at_once():
    with pytest.raises(InputError) as caught:
        Recipe(
            optimizer="adagrad",
            schedule="linear",
            trainer="parallel",
            lr=0,
            weight_decay=-1,
            momentum=1.0,
            label_smoothing=-0.1,
            batch_size=0,
            epochs=0,
            checkpoints=(3, 2),
        )
    for problem in (
        "optimizer='adagrad': choose one of sgd, adam, adamw",
        "schedule='linear': choose one of constant, cosine, step",
        "trainer='parallel': choose one of auto, stacked, serial",
        "lr=0: must be above 0",
        "weight_decay=-1: must be 0 or more",
        "momentum=1.0: must be in [0, 1)",
        "label_smoothing=-0.1: must be in [0, 1)",
        "batch_size=0: must be at least 1",
        "epochs=0: must be at least 1",
        "momentum and nesterov belong to optimizer='sgd', not 'adagrad'",
        "checkpoints=[3, 2]: must rise within 1..epochs=0",
    ):
        assert problem in str(caught.value)
    assert str(caught.value).count(";") == 10


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"optimizer": "adam", "momentum": 0.9}, "belong to optimizer='sgd'"),
        ({"optimizer": "sgd", "nesterov": True}, "needs a momentum above 0"),
        ({"schedule": "step"}, "needs step_epochs"),
        ({"epochs": 5, "checkpoints": (6,)}, r"checkpoints=\[6\]: must rise within 1..epochs=5"),
        ({"checkpoints": (0, 1)}, "must rise"),
        ({"checkpoints": (2, 2)}, "must rise"),
        ({"lr": float("nan")}, "lr=nan"),
        ({"privacy": Privacy(epsilon=1.0), "sam_rho": 0.1}, "privacy and sam_rho exclude each other"),
        ({"privacy": Privacy(epsilon=1.0, views=4)}, "views are made by flips and crop"),
    ],
)
def test_each_wrong_setting_is_named(wrong, problem):
    with pytest.raises(InputError, match=problem):
        Recipe(**wrong)


def test_no_schedule_leaves_the_rate_alone():
    assert [Recipe(epochs=4).lr_factor(t) for t in (0, 1.5, 4)] == [1, 1, 1]


@given(st.integers(1, 50), st.floats(0, 1))
def test_cosine_falls_from_one_through_a_half_to_zero(epochs, share):
    recipe = Recipe(schedule="cosine", epochs=epochs)
    assert recipe.lr_factor(0) == 1
    assert recipe.lr_factor(epochs / 2) == pytest.approx(0.5)
    assert recipe.lr_factor(epochs) == pytest.approx(0, abs=1e-15)
    assert recipe.lr_factor(share * epochs) == pytest.approx((1 + cos(pi * share)) / 2)


def test_step_multiplies_after_each_named_epoch():
    recipe = Recipe(schedule="step", step_epochs=(2, 4), step_factor=0.5, epochs=6)
    assert [recipe.lr_factor(t) for t in (0, 1.99, 2, 3.5, 4, 5.9)] == [1, 1, 0.5, 0.5, 0.25, 0.25]


def test_the_last_epoch_is_asked_about_when_no_checkpoint_is_named():
    assert Recipe(epochs=7).evaluated_epochs == (7,)
    assert Recipe(epochs=7, checkpoints=(2, 5)).evaluated_epochs == (2, 5)


def test_equal_recipes_are_equal_and_hash_alike_whatever_the_order_of_options():
    one = Recipe(net_options=(("width", 8), ("depth", 2)))
    other = Recipe(net_options=(("depth", 2), ("width", 8)))
    assert one == other
    assert hash(one) == hash(other)
    assert one.description() == other.description()
    assert len({one, other, Recipe()}) == 2


TREATMENTS = {
    "how": "down_weight",
    "choice": "random",
    "share": 0.1,
    "weight": 0.5,
    "epochs": 3,
    "restart": False,
    "records": (3, 5),
}


@pytest.mark.parametrize("name", TREATMENTS)
def test_every_setting_of_a_treatment_is_part_of_the_description(name):
    more = {"records": {"choice": "listed"}}.get(name, {})
    base = Recipe(treatment=Treatment(choice="listed", records=(1,)) if more else Treatment())
    changed = Recipe(treatment=Treatment(**{name: TREATMENTS[name], **more}))
    assert set(TREATMENTS) == set(asdict(Treatment()))
    assert json.dumps(changed.description()) != json.dumps(base.description())


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"how": "hide"}, "how='hide': choose one of leave_out, down_weight"),
        ({"choice": "best"}, "choice='best': choose one of early, random, listed"),
        ({"share": 0}, "share=0: must be above 0 and at most 0.5"),
        ({"share": 0.6}, "share=0.6"),
        ({"weight": 1.5}, r"weight=1.5: must be in \[0, 1\]"),
        ({"epochs": 0}, "epochs=0: must be at least 1"),
        ({"choice": "random", "epochs": 3}, "epochs=3 would do nothing: choice='random' needs no early"),
        ({"choice": "listed"}, "records belong to choice='listed'"),
        ({"records": (1,)}, "records belong to choice='listed'"),
        ({"choice": "listed", "records": (1, -2)}, "there is no record -2"),
    ],
)
def test_a_treatment_that_cannot_be_is_refused(wrong, problem):
    with pytest.raises(InputError, match=f"treatment: .*{problem}"):
        Treatment(**wrong)


@pytest.mark.parametrize(
    ("recipe", "problem"),
    [
        ({"epochs": 1, "treatment": Treatment()}, "epochs=1: must be below the recipe's epochs=1"),
        ({"epochs": 8, "treatment": Treatment(epochs=8)}, "epochs=8: must be below"),
        ({"treatment": Treatment(), "distillation": Distillation()}, "either treatment or distillation"),
        (
            {"epochs": 8, "treatment": Treatment(restart=False), "checkpoints": (2, 8)},
            "checkpoint 2 lies in the early window of 2 epochs",
        ),
    ],
)
def test_stages_that_do_not_fit_the_recipe_are_refused(recipe, problem):
    with pytest.raises(InputError, match=problem):
        Recipe(**recipe)


def test_distillation_leaves_some_sub_models_out_and_some_not():
    for models, left_out in ((1, 1), (3, 3), (3, 0)):
        with pytest.raises(InputError, match=f"left_out={left_out}: must be at least 1 and below"):
            Distillation(models, left_out)


def test_a_recipe_does_not_change():
    with pytest.raises(AttributeError):
        Recipe().lr = 1.0


CHANGES = {
    "net": "linear",
    "net_options": (("width", 3),),
    "optimizer": "adamw",
    "lr": 0.1,
    "momentum": 0.9,
    "nesterov": True,
    "sam_rho": 0.05,
    "weight_decay": 0.1,
    "schedule": "cosine",
    "step_epochs": (3,),
    "step_factor": 0.5,
    "label_smoothing": 0.1,
    "label_entropy": 0.5,
    "entropy_weight": 0.1,
    "relax_loss": 0.5,
    "mixup": 0.2,
    "deduplicate": True,
    "flips": True,
    "crop": 4,
    "precision": "bfloat16",
    "privacy": Privacy(epsilon=3.0),
    "batch_size": 8,
    "epochs": 9,
    "checkpoints": (2,),
    "trainer": "serial",
    "treatment": Treatment(),
    "distillation": Distillation(),
}


def test_the_description_is_json_ready_and_whole():
    recipe = Recipe(net_options=(("width", 8), ("activation", "tanh")), checkpoints=(1, 2))
    stored = json.loads(json.dumps(recipe.description()))
    assert stored["net_options"] == {"activation": "tanh", "width": 8}
    assert stored["checkpoints"] == [1, 2]
    assert set(stored) == set(CHANGES)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_any_field_changes_the_recipe(name):
    base = {"optimizer": "sgd", "momentum": 0.5} if name in ("momentum", "nesterov") else {}
    changed = Recipe(**{**base, name: CHANGES[name]})
    assert changed != Recipe(**base)
    assert changed.description() != Recipe(**base).description()


def described(estimator):
    """As it comes back from a file, with the identity of its code."""
    recipe = EstimatorRecipe(estimator)
    code = asdict(code_identity(**recipe.code))
    return json.loads(json.dumps({**recipe.description(), "code": code}))


def test_an_estimator_is_described_by_class_and_every_parameter():
    found = described(LogisticRegression(C=3.0))
    assert found["estimator"].endswith(":LogisticRegression")
    assert found["estimator"].startswith("sklearn.linear_model")
    assert set(found["parameters"]) == set(LogisticRegression().get_params()) - {"random_state"}
    assert found == described(LogisticRegression(C=3.0))


def halved(x):
    return x / 2


MANY = dict.fromkeys(range(50), 1.0)
DIFFERENT = {
    "a number": (LogisticRegression(C=1.0), LogisticRegression(C=1.0 + 1e-15)),
    "a class": (LogisticRegression(), RandomForestClassifier()),
    "the end of a long dictionary": (
        LogisticRegression(class_weight=MANY),
        LogisticRegression(class_weight={**MANY, 49: 2.0}),
    ),
    "the middle of a long array": (
        GaussianNB(priors=np.zeros(5000)),
        GaussianNB(priors=np.eye(1, 5000, 2500)[0]),
    ),
    "a step's parameter": (
        make_pipeline(StandardScaler(), GaussianNB()),
        make_pipeline(StandardScaler(with_mean=False), GaussianNB()),
    ),
    "a function": (FunctionTransformer(np.log), FunctionTransformer(np.exp)),
    "a function of one's own": (FunctionTransformer(halved), FunctionTransformer(described)),
    "an unnamed function": (
        FunctionTransformer(lambda x: x),
        FunctionTransformer(lambda x: -x),
    ),
    "a value and its text": (SimpleImputer(missing_values=1), SimpleImputer(missing_values="1")),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_estimators_that_differ_are_described_differently(what):
    one, other = DIFFERENT[what]
    assert described(one) != described(other)
    assert described(one) == described(one)


def test_what_changes_no_result_is_left_out():
    one, other = RandomForestClassifier(random_state=1), RandomForestClassifier(random_state=2)
    assert (
        EstimatorRecipe(one, processes=1).description() == EstimatorRecipe(other, processes=2).description()
    )


def test_a_nan_parameter_equals_itself_after_storage():
    """A NaN that differed from itself would refuse every resumed run."""
    assert described(SimpleImputer(missing_values=np.nan)) == described(SimpleImputer(missing_values=np.nan))


def test_estimators_are_asked_once():
    assert EstimatorRecipe(GaussianNB()).evaluated_epochs == (1,)
