"""Everything that "Evaluating the Dynamics of Membership Privacy in Deep Learning" (arXiv 2507.23291) states.

Values that its abstract and tables give without a unit are quoted as they stand.
"""

from __future__ import annotations

from leakscope.studies.claims import Claim

PUBLICATION_TITLE = "Evaluating the Dynamics of Membership Privacy in Deep Learning"
_BASELINE = "20 models, WRN-28-2, CIFAR-10, AdamW, 400 epochs, checkpoints every 10"
_MNIST = "20 models, WRN-28-2, MNIST, AdamW, 400 epochs, checkpoints every 10"
_DATASETS = "CIFAR-10 and MNIST, otherwise the baseline"
_NETS = "WRN-28-2 and a shallow CNN, otherwise the baseline"
_OPTIMIZERS = "SGD and SAM, CIFAR-10, 160 epochs"
_NO_UNIT = "the unit is not given"
_ASSUMED = "an assumption"
_CHECK = "proposed as a check, not run"
_QUESTION = "an open question"

CLAIMS = (
    Claim("proxy", "The advantage over shadow models is a sufficient proxy for true vulnerability", "",
          _ASSUMED),
    Claim("early_now", "Most finally vulnerable records are identified early: in the corner by epoch 150",
          "over 70%", _BASELINE),
    Claim("early_ever", "The same, if a record counts that was ever in the corner by epoch 150", "over 70%",
          _BASELINE),
    Claim("phases", "Membership is encoded in distinct phases", "", _BASELINE),
    Claim("markov", "The states of a record are approximately a Markov chain", "", _ASSUMED),
    Claim("peak_entry_cifar", "Peak probability of entering the vulnerable corner, CIFAR-10", "13%",
          _BASELINE),
    Claim("peak_entry_mnist", "Peak probability of entering the vulnerable corner, MNIST", "4%", _MNIST),
    Claim("peak_entry_ratio", "Complex data are encoded faster: peak entry, CIFAR-10 / MNIST", "13 / 4 = 3.3",
          _DATASETS),
    Claim("mnist_low", "On MNIST, records stay near the diagonal and transition probabilities low", "",
          _MNIST),
    Claim("com_wrn", "Displacement of the center of mass, WRN-28-2 (a rerun should roughly match)", "114",
          f"{_BASELINE}; {_NO_UNIT}"),
    Claim("com_cnn", "Displacement of the center of mass, shallow CNN", "35", f"{_NETS}; {_NO_UNIT}"),
    Claim("com_nets", "Deeper networks move further: displacement, WRN-28-2 / CNN", "114 / 35 = 3.3", _NETS),
    Claim("com_datasets", "Displacement of the center of mass, CIFAR-10 / MNIST", "114 / 12.8 = 8.9",
          _DATASETS),
    Claim("com_cinic", "Displacement of the center of mass, CINIC-10", "135", _NO_UNIT),
    Claim("entropy_wrn", "Change of the spatial entropy, WRN-28-2 (a rerun should roughly match)", "3.47",
          _BASELINE),
    Claim("entropy_cnn", "Change of the spatial entropy, shallow CNN", "0.30", _NETS),
    Claim("entropy_factor", "The change of the entropy is 3.5 times as large for the WRN-28-2", "3.5",
          _NETS),
    Claim("entropy_mnist", "Complex data are encoded more heterogeneously: change of the entropy, MNIST",
          "-0.08", _MNIST),
    Claim("sgd_entry", "Peak probability of entering the corner, SGD", "2.7%", _OPTIMIZERS),
    Claim("sam_entry", "Peak probability of entering the corner, SAM", "0.9%", _OPTIMIZERS),
    Claim("sam_ratio", "SAM suppresses encoding: peak entry, SGD / SAM", "2.7 / 0.9 = 3.0", _OPTIMIZERS),
    Claim("sam_generalizes", "SAM encourages solutions that generalize", "", _OPTIMIZERS),
    Claim("sam_not_slower", "The benefit of SAM is not an artifact of slower convergence", "",
          _ASSUMED),
    Claim("flat_minima", "Flat minima correlate with reduced memorization", "", _ASSUMED),
    Claim("hardness_strong", "Vulnerability correlates strongly with measures of learning difficulty", "",
          _BASELINE),
    Claim("epistemic_r", "Epistemic uncertainty correlates with vulnerability, among vulnerable records",
          "r = 0.916", f"{_BASELINE}; how it was computed is not said"),
    Claim("epistemic_strongest", "Epistemic uncertainty correlates more than other measures of hardness", "",
          _BASELINE),
    Claim("uncertainty_not_noise", "Epistemic uncertainty during training reflects the difficulty of "
          "generalization rather than noise of the optimization", "", _ASSUMED),
    Claim("epistemic_early", "Epistemic uncertainty predicts vulnerability reliably, early in training",
          "r = 0.916", _BASELINE),
    Claim("epistemic_everywhere", "The correlation holds across architectures and datasets", "r = 0.916",
          _ASSUMED),
    Claim("gradient_norms", "Gradient norms are poor static predictors of vulnerability", "", _BASELINE),
    Claim("influence", "Influence functions measure a hardness that correlates with vulnerability", "",
          _BASELINE),
    Claim("fewest_models", "About 16 models are enough for the states of records", "16 of 20", ""),
    Claim("more_models", "More models reduce the variance of the estimates", "", ""),
    Claim("finer_checkpoints", "Finer checkpoints capture more of the dynamics", "", ""),
    Claim("variation", "Over independent populations, the coefficient of variation of the advantage is small",
          "below 0.15", f"5 populations, CIFAR-10; {_CHECK}"),
    Claim("complexity", "Transition probabilities scale with a measure of dataset complexity", "",
          f"Fashion-MNIST, CINIC-10; {_CHECK}"),
    Claim("three_estimators", "The correlation is robust to how uncertainty is estimated", "r = 0.916",
          f"MC dropout, ensemble variance, deep ensembles; {_CHECK}"),
    Claim("intervention", "Targeted interventions on records identified early keep the utility", "",
          _QUESTION),
    Claim("other_domains", "Early uncertainty predicts vulnerability outside of vision", "", _QUESTION),
    Claim("cheap_proxies", "Cheap proxies replace the reference models, such as loss histories", "",
          _QUESTION),
)  # fmt: skip
"""In the order of the publication's themes."""
