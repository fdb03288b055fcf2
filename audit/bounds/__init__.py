"""What theory promises of a training run: certified upper bounds on what any attack can learn of one record."""

from .closed_form import accuracy_bound, chi_square, noise_multiplier_for_accuracy, one_line_bound
from .epsilon_delta import EpsilonDelta
from .fixed_bins import FixedBins
from .gaussian import Gaussian
from .guard import check_adjacency, check_same_scheme
from .interval import Interval
from .mechanism import Mechanism
from .poisson import PoissonSampling
from .random_allocation import RandomAllocation
from .records import mechanism_from_record, with_noise_multiplier
from .trade_off import (
    TradeOffCurve,
    chi_square_curve,
    epsilon_delta_curve,
    gaussian_curve,
    polygon_curve,
    total_variation_curve,
)

__all__ = [
    "EpsilonDelta",
    "FixedBins",
    "Gaussian",
    "Interval",
    "Mechanism",
    "PoissonSampling",
    "RandomAllocation",
    "TradeOffCurve",
    "accuracy_bound",
    "check_adjacency",
    "check_same_scheme",
    "chi_square",
    "chi_square_curve",
    "epsilon_delta_curve",
    "gaussian_curve",
    "mechanism_from_record",
    "noise_multiplier_for_accuracy",
    "one_line_bound",
    "polygon_curve",
    "total_variation_curve",
    "with_noise_multiplier",
]
