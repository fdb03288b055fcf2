"""What scores prove: lower bounds on epsilon, p-values of claims, and metrics with intervals. numpy and scipy only.

Validity classes: A needs fair coins only; B also that the curve is the claimed one; C that errors are independent
(one canary per training, or declared); Bayesian needs a prior; none is not a bound.
"""

from .attack_accuracy import accuracy_epsilon, accuracy_lower_bound, accuracy_p_value
from .calibrated import calibrated_epsilon
from .class_a import class_a_epsilons, class_a_p_values
from .clopper_pearson import clopper_pearson_epsilon
from .error_counts import ErrorCounts, errors_at_the_middle, errors_at_threshold
from .exact_tail import exact_tail_epsilon, exact_tail_mu, exact_tail_p_value
from .f_dp import (
    f_dp_epsilon,
    f_dp_epsilons,
    f_dp_p_value,
    f_dp_p_values,
    gaussian_family_epsilon,
    gaussian_family_mu,
)
from .gaussian_dp import gaussian_delta, gaussian_epsilon
from .gaussian_mu import gaussian_mu, gaussian_mu_epsilon
from .grid import grid_epsilon, grid_gaussian_epsilon, grid_mu, grid_p_value
from .guess_rules import RULES, All, Calibrated, Fixed, Grid, GuessRule, Sign, Split, guess_rule
from .guesses import guess_by_sign, guess_grid, order_guesses
from .independent_runs import OverDispersion, combine_p_values, over_dispersion
from .jeffreys import jeffreys_epsilon
from .joint_beta import joint_beta_epsilon
from .mann_whitney import RankTest, mann_whitney, mann_whitney_p_value
from .mean_interval import MeanInterval, mean_interval
from .one_run import one_run_epsilon, one_run_p_value
from .rates import clopper_pearson, clopper_pearson_lower, clopper_pearson_upper
from .roc import (
    Roc,
    TprAtFpr,
    auc,
    auc_interval,
    best_balanced_accuracy,
    positive_predictive_value,
    roc_curve,
    tpr_at_fpr,
)
from .roc_band import RocBand, roc_band
from .run_bets import (
    RunBet,
    RunsFinding,
    RunsPower,
    accuracy_bet,
    curve_bet,
    runs_needed,
    runs_p_value,
    runs_power,
    runs_reject,
)
from .runs_accuracy import RunsAccuracy, runs_accuracy
from .tallies import Tally, tally_epsilon, tally_p_value

__all__ = [
    "RULES",
    "All",
    "Calibrated",
    "ErrorCounts",
    "Fixed",
    "Grid",
    "GuessRule",
    "MeanInterval",
    "OverDispersion",
    "RankTest",
    "Roc",
    "RocBand",
    "RunBet",
    "RunsAccuracy",
    "RunsFinding",
    "RunsPower",
    "Sign",
    "Split",
    "Tally",
    "TprAtFpr",
    "accuracy_bet",
    "accuracy_epsilon",
    "accuracy_lower_bound",
    "accuracy_p_value",
    "auc",
    "auc_interval",
    "best_balanced_accuracy",
    "calibrated_epsilon",
    "class_a_epsilons",
    "class_a_p_values",
    "clopper_pearson",
    "clopper_pearson_epsilon",
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "combine_p_values",
    "curve_bet",
    "errors_at_the_middle",
    "errors_at_threshold",
    "exact_tail_epsilon",
    "exact_tail_mu",
    "exact_tail_p_value",
    "f_dp_epsilon",
    "f_dp_epsilons",
    "f_dp_p_value",
    "f_dp_p_values",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_family_epsilon",
    "gaussian_family_mu",
    "gaussian_mu",
    "gaussian_mu_epsilon",
    "grid_epsilon",
    "grid_gaussian_epsilon",
    "grid_mu",
    "grid_p_value",
    "guess_by_sign",
    "guess_grid",
    "guess_rule",
    "jeffreys_epsilon",
    "joint_beta_epsilon",
    "mann_whitney",
    "mann_whitney_p_value",
    "mean_interval",
    "one_run_epsilon",
    "one_run_p_value",
    "order_guesses",
    "over_dispersion",
    "positive_predictive_value",
    "roc_band",
    "roc_curve",
    "runs_accuracy",
    "runs_needed",
    "runs_p_value",
    "runs_power",
    "runs_reject",
    "tally_epsilon",
    "tally_p_value",
    "tpr_at_fpr",
]
