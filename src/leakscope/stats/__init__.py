"""The figures of a report, each with its interval: pure functions of arrays, with numpy and scipy only.

A higher score always means "member". Undefined values are NaN, with a reason.

- `roc`, `roc_summary`: curves, AUC, TPR at an FPR, advantage, precision at a prior.
- `intervals`, `bootstrap`: uncertainty of a rate, an AUC, a mean over targets, any statistic.
- `correlation`: Pearson, Spearman, partial, and which of two quantities predicts better.
- `epsilon`, `gdp`: lower bounds on the epsilon of differential privacy.
- `per_record`, `groups`: risk of each record over targets, and of each group.
"""
