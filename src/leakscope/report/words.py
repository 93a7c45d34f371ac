"""The words of a report that need explaining, in words that do not.

Every page ends with those it uses. Its script makes the first use of each in a section a link that shows the
meaning on hover, on focus and on touch; without scripts and on paper the list remains.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple


class Word(NamedTuple):
    """A word with its meaning.

    Attributes:
        id: id of its entry on the page, after "word-".
        term: the word as the list shows it.
        pattern: regular expression of the forms that text has it in; the same in Python and in JavaScript.
        meaning: what it means, for a reader who knows neither statistics nor machine learning.
    """

    id: str
    term: str
    pattern: str
    meaning: str


WORDS = (
    Word("member", "member", "members?|membership",
         "A record that the model was trained on. An attacker who learns who is a member learns, for "
         "example, who was a patient."),
    Word("non-member", "non-member", "non-members?", "A record that the model was not trained on."),
    Word("attack", "attack", "attacks?|attacker",
         "A method that guesses from a model's outputs whether a record is a member. It gives every record a "
         "score; a higher score means that membership is more likely."),
    Word("reference-model", "reference model", "reference models?|references",
         "A model that was trained in the same way on other records, so that an attack knows what outputs to "
         "expect for members and for non-members."),
    Word("target", "target", "targets?", "The model under attack."),
    Word("auc", "AUC", "AUC",
         "How often an attack gives a member a higher score than a non-member, if one of each is drawn at "
         "random. 50% (0.5) is a coin toss; 100% (1.0) is certainty. It is an average over all records."),
    Word("tpr", "TPR (true positive rate)", "TPR|true positive rates?",
         "The share of members that an attack recognizes."),
    Word("fpr", "FPR (false positive rate)", "FPR|false positive rates?",
         "The share of non-members that an attack wrongly takes for members: its false alarms. An attacker "
         "who must be sure works at a low FPR."),
    Word("roc", "ROC", "ROC",
         "The curve of all pairs of TPR and FPR that an attack reaches, from very cautious on the left to "
         "very bold on the right."),
    Word("advantage", "advantage", "advantage",
         "TPR minus FPR: members recognized, less the false alarms. 0 is guessing, 1 is certainty."),
    Word("precision", "precision", "precision",
         "Among the records that an attack calls members, the share that really are."),
    Word("bits", "bits", "bits?|mutual information",
         "How much one output reveals about whether a record is a member. 0 bits is nothing, 1 bit is "
         "certainty."),
    Word("epsilon", "epsilon", "epsilon",
         "The number that states how strong a guarantee of differential privacy is: the smaller, the "
         "stronger. An attack can show that epsilon is at least some value; it can never give an upper "
         "bound."),
    Word("exposed", "exposed", "(?<!most )exposed",
         "A record whose membership is detectable in one model after another, more often than chance "
         "explains."),
    Word("most-exposed", "most exposed 1%", "most exposed 1%",
         "The one record in a hundred about which the models reveal most. An average over all records hides "
         "them."),
    Word("false-discovery-rate", "false discovery rate", "false discovery rate",
         "The share of false alarms to expect in a list: 5% means that about 1 in 20 of the listed records "
         "may be there by chance."),
    Word("interval", "95% interval", "95% intervals?",
         "A range for a figure that was measured on a sample, computed so that it contains the true value "
         "in about 95 of 100 such audits."),
    Word("records-like-these", "records like these", "records like these",
         "Other records from the same source, with models trained on them: what the next data set of this "
         "kind would show."),
    Word("canary", "canary", "canary|canaries",
         "An unusual record that was made up and planted in the training data, to measure what happens to "
         "the people who stand out most."),
    Word("recipe", "recipe", "recipe", "How a model is trained: its kind, its settings, for how long."),
    Word("rating", "rating", "rating",
         "How much leaks in one word: none found, low, moderate, high or severe; inconclusive where nothing "
         "follows from the audit."),
    Word("gate", "gate", "gate",
         "Limits that were set before the audit. The audit passes them, fails them, or cannot decide."),
)  # fmt: skip


def words_in(text: str) -> Sequence[Word]:
    """The words that a text uses, in the order of the list."""
    return [
        word for word in WORDS if re.search(rf"(?<![\w/-])(?:{word.pattern})(?![\w-])", text, re.IGNORECASE)
    ]
