"""What theory promises of a training run: certified upper bounds on what any attack can learn of one record."""

from .balanced import BalancedAllocation
from .closed_form import accuracy_bound, chi_square, noise_multiplier_for_accuracy, one_line_bound
from .composition import Composition
from .epsilon_delta import EpsilonDelta
from .fixed_bins import FixedBins
from .fixed_size_sampling import FixedSizeSampling
from .gaussian import Gaussian
from .group import GroupPrivacy
from .interval import Interval
from .mechanism import Mechanism
from .names import MECHANISM_NAMES, canonical_name
from .poisson import PoissonSampling
from .random_allocation import RandomAllocation
from .records import mechanism_fields, mechanism_from_record, mechanism_kind, with_noise_multiplier
from .risk import advantage, bayes_error, beta
from .shuffled import ShuffledBatches
from .trade_off import (
    TradeOffCurve,
    chi_square_curve,
    epsilon_delta_curve,
    gaussian_curve,
    polygon_curve,
    total_variation_curve,
)
from .truncated_poisson import TruncatedPoisson

__all__ = [
    "MECHANISM_NAMES",
    "BalancedAllocation",
    "Composition",
    "EpsilonDelta",
    "FixedBins",
    "FixedSizeSampling",
    "Gaussian",
    "GroupPrivacy",
    "Interval",
    "Mechanism",
    "PoissonSampling",
    "RandomAllocation",
    "ShuffledBatches",
    "TradeOffCurve",
    "TruncatedPoisson",
    "accuracy_bound",
    "advantage",
    "bayes_error",
    "beta",
    "canonical_name",
    "chi_square",
    "chi_square_curve",
    "epsilon_delta_curve",
    "gaussian_curve",
    "mechanism_fields",
    "mechanism_from_record",
    "mechanism_kind",
    "noise_multiplier_for_accuracy",
    "one_line_bound",
    "polygon_curve",
    "total_variation_curve",
    "with_noise_multiplier",
]
