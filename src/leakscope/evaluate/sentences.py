"""The results of an audit in plain sentences: what was measured, what follows, what does not."""

from __future__ import annotations

from typing import Literal

from leakscope.disclosure import FEWEST_RECORDS
from leakscope.dp.sentences import figures_sentences
from leakscope.evaluate.coarse import about_members
from leakscope.evaluate.gate import FEWEST_REFERENCES, MORE_ARE_STRONGER
from leakscope.evaluate.hygiene.causes import in_order
from leakscope.evaluate.limits import audit_outcome
from leakscope.evaluate.nouns import RECORD, Noun
from leakscope.evaluate.rating_sentences import rating_sentence
from leakscope.evaluate.results import AuditResults, PopulationFigures, SetFigures
from leakscope.evaluate.text_sentences import text_sentences
from leakscope.leakage.bits import MOST_EXPOSED_SHARE
from leakscope.report.phrases import counted, enumeration, significant

_MOST_NAMED = 5


def title(results: AuditResults) -> str:
    """The title of the reports."""
    subject = "the model reveals" if results.is_of_one_model else "models of this recipe reveal"
    return f"What {subject} about membership: {results.config.records}"


def summary(results: AuditResults) -> list[str]:
    """The whole audit, in the order a reader wants it."""
    return [
        *opening_sentences(results),
        *gate_sentences(results),
        *claim_sentences(results),
        rating_sentence(results),
        population_sentence(results),
        *privacy_sentences(results),
        *accuracy_sentences(results),
        *([] if has_failed_check(results) else _figure_sentences(results)),
        *diverged_sentences(results),
        *check_sentences(results, "warning"),
        *limitations(results),
    ]


def key_findings(results: AuditResults) -> list[str]:
    """What matters beside the strongest attack, the most important first."""
    is_void = has_failed_check(results)
    return [
        *gate_sentences(results),
        *claim_sentences(results),
        *([] if is_void else _figure_sentences(results)[1:]),
        " ".join([population_sentence(results), *accuracy_sentences(results)]),
        *privacy_sentences(results),
        *diverged_sentences(results),
        *check_sentences(results, "warning"),
    ]


def _figure_sentences(results: AuditResults) -> list[str]:
    return [
        strongest_sentence(results),
        *inverted_sentences(results),
        *set_sentences(results),
        *exposed_sentences(results),
        *text_sentences(results.text, results.is_of_one_model),
        *leakage_sentences(results),
    ]


def has_failed_check(results: AuditResults) -> bool:
    """True when the figures may measure a fault of the audit, so that no sentence may state them."""
    return any(check.status == "failed" for check in results.hygiene)


def opening_sentences(results: AuditResults) -> list[str]:
    """What a reader must know before any figure: that the audit is inconclusive, and why."""
    if has_failed_check(results):
        opening = ["Inconclusive: a check of the audit failed, so its figures prove nothing."]
    elif audit_outcome(results) == "inconclusive":
        what = "whether every limit of the gate holds"
        if results.gate is None or results.gate.outcome != "inconclusive":
            what = "about the claim of differential privacy"
        opening = [f"Inconclusive: the audit cannot decide {what}."]
    else:
        opening = []
    failed, unreliable = check_sentences(results, "failed"), check_sentences(results, "unreliable")
    return [*opening, *failed, *_cause_sentences(results), *unreliable]


def _cause_sentences(results: AuditResults) -> list[str]:
    """The causes of all failed checks in one sentence, the most likely first."""
    failed = [check for check in results.hygiene if check.status == "failed"]
    ordered = in_order(cause for check in failed for cause in check.causes)
    numbered = [f"({number}) {cause}" for number, cause in enumerate(ordered, 1)]
    return [f"Likely causes, the most likely first: {'; '.join(numbered)}."] if numbered else []


def check_sentences(results: AuditResults, status: Literal["failed", "unreliable", "warning"]) -> list[str]:
    """One sentence for each check that ended with `status`."""
    opening = {"failed": "DO NOT TRUST THESE FIGURES", "unreliable": "UNRELIABLE", "warning": "Warning"}[
        status
    ]
    checks = [check for check in results.hygiene if check.status == status]
    return [f"{opening} ({check.name}): {check.sentence}" for check in checks]


def gate_sentences(results: AuditResults) -> list[str]:
    """One sentence per limit: broken limits first, then undecided ones; none without a gate."""
    limits = results.gate.limits if results.gate else ()
    order = ("failed", "inconclusive", "passed")
    return [limit.sentence for limit in sorted(limits, key=lambda limit: order.index(limit.outcome))]


def claim_sentences(results: AuditResults) -> list[str]:
    """What the audit says about a claim of differential privacy, and what is odd about the claim."""
    claim, privacy = results.claim, results.population.privacy
    if results.config.claim is None:
        return []
    if claim is None:
        return ["The claim was not judged: a check of the audit failed."]
    delta, members = results.config.claim.delta, max(results.population.members, 1)
    notes = []
    if privacy is not None and abs(privacy.epsilon - claim.verdict.epsilon) > 0.01 * claim.verdict.epsilon:
        notes.append(
            f"The claim is of epsilon = {claim.verdict.epsilon:.3g}, and the training spends "
            f"{privacy.epsilon:.3g} at delta = {privacy.delta:g} by its own accounting."
        )
    if privacy is None and "net" in results.population.recipe:
        notes.append(
            "The models were trained without differential privacy: their training guarantees no epsilon."
        )
    if delta >= 1 / members:
        notes.append(
            f"A delta of {delta:g} is not below one over the {members:,} members: publishing some records at "
            "random would satisfy the claim."
        )
    return [*figures_sentences(claim), *notes]


def population_sentence(results: AuditResults) -> str:
    """Which models were audited, on which records."""
    population, name, noun = results.population, results.config.records, results.config.noun
    of = [] if population.rows is None else [f"{population.rows:,} records"]
    of += [] if name == "records" else [name]
    records = f"{population.records:,} {noun.many}" + (f" ({', '.join(of)})" if of else "")
    if not results.is_of_one_model:
        planted = f", and of {_canaries(population.canaries)}" if population.canaries else ""
        return f"{population.models} models were each trained on a random half of {records}{planted}."
    members = about_members(results, " of them members of its training set")
    sentence = f"One model was audited by its outputs on {records}, {members}"
    n_references = population.models - 1
    few = _few_references(n_references)
    if not n_references:
        return f"{sentence}, without reference models. {few}"
    trained = ", trained for this audit" if results.config.source.kind == "given model" else ""
    return f"{sentence}, with {counted(n_references, 'reference model')}{trained}.{few and f' {few}'}"


def _few_references(n_references: int) -> str:
    """What an audit with few reference models is worth; empty with enough of them."""
    if not n_references:
        return (
            "This is the weakest kind of audit: attacks that compare a model with reference models detect "
            "more. It can show that a model leaks, but not that it does not."
        )
    if n_references < FEWEST_REFERENCES:
        return (
            f"Fewer than {FEWEST_REFERENCES} can show that a model leaks, but not that it does not, because "
            f"{MORE_ARE_STRONGER}."
        )
    return ""


def privacy_sentences(results: AuditResults) -> list[str]:
    """The guarantee of DP-SGD, and whether the attacks contradict it; none for other trainings."""
    spent = results.population.privacy
    if spent is None:
        return []
    guarantee = (
        f"The models were trained with DP-SGD: epsilon = {spent.epsilon:.3g} at delta = {spent.delta:g} for "
        f"each record (noise multiplier {spent.noise_multiplier:.3g}, clipping norm {spent.clip:g}, "
        f"{spent.steps:,} steps with sampling rate {spent.sampling_rate:.3g})."
    )
    bounds = [figures.epsilon.general.value for figures in results.attacks.values()]
    largest = max((bound for bound in bounds if bound is not None), default=0.0)
    if largest <= spent.epsilon or results.config.delta < spent.delta:
        return [guarantee]
    return [
        guarantee,
        f"Warning: the attacks contradict this guarantee, with a lower bound of {largest:.3g} on epsilon. "
        "Either records depend on each other (duplicates, for example), or the training is at fault.",
    ]


def accuracy_sentences(results: AuditResults) -> list[str]:
    """Accuracy, or the error of a regression, on members and non-members; none where neither is known."""
    accuracy, error = results.accuracy, results.error
    if accuracy is not None and accuracy.members.value is not None and accuracy.nonmembers.value is not None:
        on_members, on_others = f"{accuracy.members.value:.1%}", f"{accuracy.nonmembers.value:.1%}"
        what = "Accuracy" if results.text is None else "Share of tokens predicted correctly"
        return [f"{what}: {on_members} on members, {on_others} on non-members."]
    if error is not None and error.members.value is not None and error.nonmembers.value is not None:
        on_members, on_others = significant(error.members.value), significant(error.nonmembers.value)
        return [f"Root mean squared error: {on_members} on members, {on_others} on non-members."]
    return []


def strongest_sentence(results: AuditResults) -> str:
    """How often the strongest attack ranks a member above a non-member."""
    return (
        f"The strongest attack ({results.strongest_attack}) ranks {a_pair(results.config.noun)} "
        f"{how_often(results)}."
    )


def inverted_sentences(results: AuditResults) -> list[str]:
    """Which attacks were turned around, and the mistake that would look the same."""
    labels = results.inverted_attacks
    if not labels:
        return []
    return [
        f"Members score lower than non-members in {enumeration(labels)}, so these scores count with the "
        "opposite sign. Make sure that members and non-members are not swapped."
    ]


def a_pair(noun: Noun) -> str:
    """Whom an AUC compares."""
    if noun == RECORD:
        return "a random member above a random non-member"
    return f"a random {noun.one} of the training set above a random other {noun.one}"


def how_often(results: AuditResults) -> str:
    """The AUC of the strongest attack as a share of the time, with its interval."""
    auc, many = results.headline.auc, results.config.noun.many
    interval = "no interval" if auc.low is None else f"95% interval {auc.low:.1%} to {auc.high:.1%}"
    if auc.these_low is not None:  # see docs/coverage.md for what "about" means
        interval = (
            f"95% interval {auc.these_low:.1%} to {auc.these_high:.1%} for these {many}, "
            f"about {auc.low:.1%} to {auc.high:.1%} for {many} like these"
        )
    return f"{auc.value or 0:.1%} of the time ({interval}; guessing gives 50%)"


def set_sentences(results: AuditResults) -> list[str]:
    """What the strongest attack achieves on the most exposed records, and on canaries."""
    most_exposed, canaries = results.headline.most_exposed, results.headline.canaries
    sentences = []
    # Where membership is secret, a page says nothing about fewer records.
    is_small = results.is_of_one_model and most_exposed.records < FEWEST_RECORDS
    if most_exposed.reason is None and not is_small:
        whom = f"{MOST_EXPOSED_SHARE:.0%} of the {results.config.noun.many}"
        share = f"most exposed {whom} (chosen by the other models)"
        sentences.append(f"Among the {share}, {_how_often_in(most_exposed)}.")
    if canaries is not None and results.is_of_one_model and canaries.records < FEWEST_RECORDS:
        return sentences
    if canaries is not None and canaries.reason is None:
        sentences.append(f"Among the {_canaries(canaries.records)}, {_how_often_in(canaries)}.")
    elif canaries is not None:
        sentences.append(f"The canaries were not measured: {canaries.reason}.")
    return sentences


def _how_often_in(figures: SetFigures) -> str:
    auc = figures.auc
    about = "" if auc.these_low is None else "about "
    interval = "no interval" if auc.low is None else f"95% interval {about}{auc.low:.1%} to {auc.high:.1%}"
    return f"the strongest attack ({figures.attack}) does so {auc.value or 0:.1%} of the time ({interval})"


def _canaries(number: int) -> str:
    return "1 canary" if number == 1 else f"{number:,} canaries"


def exposed_sentences(results: AuditResults) -> list[str]:
    """How many records are individually exposed; none where single records were not evaluated."""
    exposed, noun = results.exposed, results.config.noun
    if exposed is None:
        return []
    if exposed.records is None or exposed.share is None:
        return [f"Exposed {noun.many}: {exposed.reason}."]
    rate = f"{exposed.false_discovery_rate:.0%}"
    if not exposed.records:
        return [f"No {noun.one} is individually exposed at a false discovery rate of {rate}."]
    number = noun.counted(exposed.records)
    be = "is" if exposed.records == 1 else "are"
    return [
        f"{number} ({exposed.share:.1%}) {be} individually exposed: membership is detectable across models "
        f"(false discovery rate {rate})."
    ]


def leakage_sentences(results: AuditResults) -> list[str]:
    """How many bits an output reveals; none where that is undefined (the report states the reason)."""
    checkpoints = results.leakage.checkpoints
    if not checkpoints or checkpoints[-1].bits.value is None:
        return []
    bits, most_exposed = checkpoints[-1].bits, checkpoints[-1].most_exposed
    noun = results.config.noun
    what = "An output" if noun == RECORD else f"The mean output on the records of one {noun.one}"
    membership = noun.say("a record's membership")
    if not bits.has_interval:  # the figure may be near 0 where an attack finds members with ease
        what = what[0].lower() + what[1:]
        return [
            f"{_whose_bits(results)}How much {what} reveals about {membership}: {results.leakage.reason}."
        ]
    most = f"The most exposed {most_exposed.share:.0%} of {noun.many} reveal"
    highest = f"{most} {max(most_exposed.value or 0, 0):.2f} bits."
    if most_exposed.reason is not None:
        highest = f"How much the most exposed {most_exposed.share:.0%} reveal is not measurable: "
        highest += f"{noun.say(most_exposed.reason)}."
    return [
        f"{_whose_bits(results)}{what} reveals {max(bits.value or 0, 0):.3f} bits about {membership} on "
        f"average ({_bits_interval(results)}; 1 bit is certainty). {highest}"
    ]


def _whose_bits(results: AuditResults) -> str:
    """Which models the bits were measured on, where the audited model is not among them."""
    if not results.is_of_one_model:
        return ""
    n_references = results.population.models - results.population.targets
    return (
        "How much models trained like this one reveal was estimated on the "
        f"{n_references} reference models alone; it does not count towards the rating of this model. "
    )


def diverged_sentences(results: AuditResults) -> list[str]:
    """Which models diverged; none where all converged."""
    diverged = results.population.diverged_models
    if not diverged:
        return []
    named = ", ".join(f"{model} (epoch {epoch})" for model, epoch in list(diverged.items())[:_MOST_NAMED])
    more = ", ..." if len(diverged) > _MOST_NAMED else ""
    models = "model" if len(diverged) == 1 else "models"
    return [f"Left out because training diverged: {len(diverged)} {models}, {named}{more}."]


def seeds_text(population: PopulationFigures) -> str:
    """The seed, or the seeds of merged runs."""
    seed = population.seed
    return str(seed) if isinstance(seed, int) else ", ".join(map(str, seed))


def limitations(results: AuditResults) -> list[str]:
    """What the figures do not say."""
    many = results.config.noun.many
    if results.is_of_one_model:
        return [
            "The figures hold for these attacks and these outputs; a stronger attack may learn more.",
            f"Intervals are over {many}: another model trained the same way may reveal more or less.",
        ]
    return [
        "The figures hold for these attacks and this many models; a stronger attack may learn more.",
        f"They hold for this recipe, on these {many} and on others drawn like them.",
        f"Intervals for {many} like these are approximate, because no model was trained on other {many}.",
    ]


def _bits_interval(results: AuditResults) -> str:
    bits, noun = results.leakage.checkpoints[-1].bits, results.config.noun
    low, high, these_low, these_high = (
        f"{max(end or 0, 0):.3f}" for end in (bits.low, bits.high, bits.these_low, bits.these_high)
    )
    of_these = f"95% interval {these_low} to {these_high} for these {noun.many}"
    return f"{of_these}, about {low} to {high} for {noun.many} like these"
