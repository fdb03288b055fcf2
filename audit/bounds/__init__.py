"""What theory promises of a training run: certified upper bounds on what any attack can learn of one record."""

from .closed_form import accuracy_bound, chi_square, noise_multiplier_for_accuracy, one_line_bound
from .epsilon_delta import EpsilonDelta
from .fixed_bins import FixedBins
from .gaussian import Gaussian
from .interval import Interval
from .mechanism import Mechanism
from .names import MECHANISM_NAMES, canonical_name
from .poisson import PoissonSampling
from .random_allocation import RandomAllocation
from .records import mechanism_fields, mechanism_from_record, mechanism_kind, with_noise_multiplier
from .trade_off import (
    TradeOffCurve,
    chi_square_curve,
    epsilon_delta_curve,
    gaussian_curve,
    polygon_curve,
    total_variation_curve,
)

__all__ = [
    "MECHANISM_NAMES",
    "EpsilonDelta",
    "FixedBins",
    "Gaussian",
    "Interval",
    "Mechanism",
    "PoissonSampling",
    "RandomAllocation",
    "TradeOffCurve",
    "accuracy_bound",
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
